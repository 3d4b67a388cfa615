//! The port `UnreadableRecords`.

use crate::error::Result;
use crate::id::TaskKey;
use crate::name::Namespace;
use crate::ports::{Cursor, Page, UnreadableRecords};
use crate::quarantine::{Discarded, Quarantined, RawTask};
use async_trait::async_trait;

use crate::queue::memory::InMemoryQueue;

#[async_trait]
impl UnreadableRecords for InMemoryQueue {
    async fn list_quarantined(
        &self,
        _namespace: Option<&Namespace>,
        _cursor: Option<Cursor>,
        _limit: u32,
    ) -> Result<Page<Quarantined>> {
        Ok(Page { items: Vec::new(), next: None, complete: true })
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        Ok(vec![None; keys.len()])
    }

    async fn raw_task(&self, _key: &TaskKey) -> Result<Option<RawTask>> {
        Ok(None)
    }

    async fn discard_task(&self, _key: &TaskKey, _expected: &RawTask) -> Result<Discarded> {
        Ok(Discarded::Missing)
    }
}
