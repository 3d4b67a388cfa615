//! Tasks that a store reports as unreadable.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_core::id::TaskKey;
use weaver_core::quarantine::{Discarded, Quarantine, Quarantined, RawTask, RecordKind};
use weaver_core::task::TaskRecord;

use crate::faults::FaultyStore;
use crate::intercept::{Answer, Call};

/// Unreadable records and invented stored forms. If empty, the decorated store answers.
#[derive(Debug, Default)]
pub(super) struct Pretence {
    findings: Quarantine,
    raw: Mutex<BTreeMap<TaskKey, RawTask>>,
    removed: Mutex<BTreeSet<TaskKey>>,
}

impl FaultyStore {
    /// Makes a record unreadable from now on.
    pub fn cannot_read(&self, finding: Quarantined) {
        self.by.pretence.findings.add(finding);
    }

    /// Gives a task this stored form, which can be discarded.
    pub fn stores_as(&self, key: &TaskKey, text: &str) {
        self.by.pretence.raw.lock().insert(key.clone(), RawTask { text: text.to_owned() });
    }
}

impl Pretence {
    fn finding(&self, key: &TaskKey) -> Option<Quarantined> {
        self.findings.get(&key.namespace, RecordKind::Task, &key.id.to_string())
    }

    /// Whether reads return a task.
    fn shows(&self, record: &TaskRecord) -> bool {
        !self.removed.lock().contains(&record.key) && self.finding(&record.key).is_none()
    }

    /// The answer of a call that is not passed on.
    pub(super) fn answer(&self, call: &Call) -> Option<Result<Answer>> {
        match call {
            Call::ListQuarantined { namespace, cursor, limit } if !self.findings.is_empty() => {
                let page = self.findings.page(namespace.as_ref(), cursor.clone(), *limit);
                Some(page.map(Answer::ListQuarantined))
            }
            Call::RawTask { key } => match self.raw.lock().get(key) {
                Some(raw) => Some(Ok(Answer::RawTask(Some(raw.clone())))),
                None => self.removed.lock().contains(key).then_some(Ok(Answer::RawTask(None))),
            },
            Call::DiscardTask { key, expected } => {
                self.discard(key, expected).map(Answer::DiscardTask).map(Ok)
            }
            _ => None,
        }
    }

    /// Removes unreadable records from an answer.
    pub(super) fn edit(&self, call: &Call, mut answer: Answer) -> Answer {
        match (call, &mut answer) {
            (_, Answer::GetTasks(found)) => {
                found
                    .iter_mut()
                    .for_each(|record| *record = record.take().filter(|record| self.shows(record)));
            }
            (_, Answer::ListTasks(page)) => page.items.retain(|record| self.shows(record)),
            (Call::FindQuarantined { keys }, Answer::FindQuarantined(found)) => {
                for (key, found) in keys.iter().zip(found) {
                    *found = self.finding(key).or(found.take());
                }
            }
            _ => {}
        }
        answer
    }

    /// `None` for a task whose stored form is its own.
    fn discard(&self, key: &TaskKey, expected: &RawTask) -> Option<Discarded> {
        let mut raw = self.raw.lock();
        match raw.get(key) {
            None => self.removed.lock().contains(key).then_some(Discarded::Missing),
            Some(stored) if stored != expected => Some(Discarded::Changed),
            Some(_) => {
                raw.remove(key);
                self.removed.lock().insert(key.clone());
                self.findings.remove(&key.namespace, RecordKind::Task, &key.id.to_string());
                Some(Discarded::Removed)
            }
        }
    }
}
