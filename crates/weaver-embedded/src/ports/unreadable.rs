//! The port `UnreadableRecords`.

use async_trait::async_trait;
use weaver_core::error::Result;
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask, RecordKind, Unreadable};
use weaver_core::task::TaskRecord;

use crate::EmbeddedStore;
use crate::fault::StoreResult;
use crate::rows::{self, Rows};
use crate::unreadable::{find_task, raw_task};

#[async_trait]
impl UnreadableRecords for EmbeddedStore {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        self.shared.quarantine.page(namespace, cursor, limit)
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        let quarantine = &self.shared.quarantine;
        let find = |key: &TaskKey| quarantine.get(&key.namespace, RecordKind::Task, &key.id.to_string());
        Ok(keys.iter().map(find).collect())
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        let read = self.read(|table| match rows::namespace_number(table, &key.namespace)? {
            Some(number) => raw_task(table, number, key.id),
            None => Ok(None),
        });
        read.await
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        let (key, expected) = (key.clone(), expected.clone());
        self.write(move |work| work.discard(&key, &expected)).await
    }
}

impl EmbeddedStore {
    /// Reads a task from its rows; one that cannot be read is quarantined, and `None`.
    pub(super) fn find(
        &self,
        table: &impl Rows,
        namespace: &Namespace,
        number: u32,
        id: TaskId,
    ) -> StoreResult<Option<TaskRecord>> {
        match find_task(table, namespace, number, id)? {
            Some(Err(unreadable)) => {
                self.shared.quarantine.add(unreadable.finding(self.clock.now()));
                Ok(None)
            }
            found => Ok(found.and_then(Result::ok)),
        }
    }

    pub(super) fn quarantine(&self, kind: RecordKind, namespace: &Namespace, id: String, why: Unreadable) {
        let finding = Quarantined::new(kind, namespace.clone(), id, why, self.clock.now());
        self.shared.quarantine.add(finding);
    }
}
