//! The port `UnreadableRecords`.

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask};

use crate::PostgresStore;

#[async_trait]
impl UnreadableRecords for PostgresStore {
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
