//! Tasks that a store pretends not to be able to read.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page, UnreadableRecords};
use weaver_core::quarantine::{Discarded, Quarantine, Quarantined, RawTask, RecordKind};
use weaver_core::task::TaskRecord;

use crate::faults::FaultyStore;

/// What cannot be read, and stored forms that are made up. Empty: the decorated store answers for itself.
#[derive(Debug, Default)]
pub(super) struct Pretence {
    findings: Quarantine,
    raw: Mutex<BTreeMap<TaskKey, RawTask>>,
    removed: Mutex<BTreeSet<TaskKey>>,
}

impl FaultyStore {
    /// From now on a record cannot be read.
    pub fn cannot_read(&self, finding: Quarantined) {
        self.pretence.findings.add(finding);
    }

    /// From now on a task has this stored form; it can be discarded.
    pub fn stores_as(&self, key: &TaskKey, text: &str) {
        self.pretence.raw.lock().insert(key.clone(), RawTask { text: text.to_owned() });
    }

    fn finding(&self, key: &TaskKey) -> Option<Quarantined> {
        self.pretence.findings.get(&key.namespace, RecordKind::Task, &key.id.to_string())
    }

    /// Whether reads show a task.
    pub(super) fn shows(&self, record: &TaskRecord) -> bool {
        !self.pretence.removed.lock().contains(&record.key) && self.finding(&record.key).is_none()
    }
}

#[async_trait]
impl UnreadableRecords for FaultyStore {
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>> {
        if !self.pretence.findings.is_empty() {
            return self.pretence.findings.page(namespace, cursor, limit);
        }
        self.call("list_quarantined", || self.inner.list_quarantined(namespace, cursor.clone(), limit)).await
    }

    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>> {
        let found = self.call("find_quarantined", || self.inner.find_quarantined(keys)).await?;
        Ok(keys.iter().zip(found).map(|(key, found)| self.finding(key).or(found)).collect())
    }

    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>> {
        if let Some(raw) = self.pretence.raw.lock().get(key) {
            return Ok(Some(raw.clone()));
        }
        if self.pretence.removed.lock().contains(key) {
            return Ok(None);
        }
        self.call("raw_task", || self.inner.raw_task(key)).await
    }

    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded> {
        let stored = self.pretence.raw.lock().get(key).cloned();
        if stored.is_none() && self.pretence.removed.lock().contains(key) {
            return Ok(Discarded::Missing);
        }
        match stored {
            None => self.call("discard_task", || self.inner.discard_task(key, expected)).await,
            Some(stored) if stored != *expected => Ok(Discarded::Changed),
            Some(_) => {
                self.pretence.raw.lock().remove(key);
                self.pretence.removed.lock().insert(key.clone());
                self.pretence.findings.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
                Ok(Discarded::Removed)
            }
        }
    }
}
