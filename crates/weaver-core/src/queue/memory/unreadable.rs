//! The port `UnreadableRecords`: memory holds records, not bytes, so none is unreadable.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TaskKey;
use crate::limits::check_page;
use crate::name::Namespace;
use crate::ports::{Cursor, Page, UnreadableRecords};
use crate::quarantine::{Discarded, Quarantined, RawTask};
use crate::queue::memory::InMemoryQueue;
use crate::task::TaskRecord;

#[async_trait]
impl UnreadableRecords for InMemoryQueue {
    async fn list_quarantined(
        &self,
        _namespace: Option<&Namespace>,
        _cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        check_page(limit)?;
        Ok(Page { items: Vec::new(), next: None, complete: true })
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        Ok(vec![None; keys.len()])
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        let record = self.with(|state| state.get(key).cloned());
        Ok(record.as_ref().map(raw))
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        Ok(self.with(|state| match state.get(key).map(raw) {
            None => Discarded::Missing,
            Some(found) if found != *expected => Discarded::Changed,
            Some(_) => {
                state.discard(key.id);
                Discarded::Removed
            }
        }))
    }
}

fn raw(record: &TaskRecord) -> RawTask {
    // A record consists of names, numbers and texts: its serialization cannot fail.
    RawTask { text: serde_json::to_string(record).unwrap_or_default() }
}
