//! The state of the store reconstructed from the history: records and queue settings.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;
use weaver_core::lease::LeaseRequest;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::QueueSettings;
use weaver_core::task::{TaskRecord, TaskState};
use weaver_core::time::Timestamp;

use crate::simulation::history::What;

#[derive(Debug, Default)]
pub(super) struct Shadow<'a> {
    records: BTreeMap<&'a TaskKey, &'a TaskRecord>,
    settings: BTreeMap<(&'a Namespace, &'a QueueName), QueueSettings>,
}

impl<'a> Shadow<'a> {
    /// Applies an event; the grants of a lease call are applied one by one with [`Shadow::put`].
    pub(super) fn follow(&mut self, what: &'a What) {
        match what {
            What::Enqueued { record: Some(record), .. } => self.put(record),
            What::Committed { after: Some(after), .. }
            | What::Renewed { after: Some(after), .. }
            | What::Stopped { after: Some(after), .. } => self.put(after),
            What::QueueSet(namespace, queue, settings) => {
                self.settings.insert((namespace, queue), *settings);
            }
            _ => {}
        }
    }

    pub(super) fn put(&mut self, record: &'a TaskRecord) {
        self.records.insert(&record.key, record);
    }

    /// The task that a lease call must take next.
    pub(super) fn next(&self, request: &LeaseRequest, slots: u32, now: Timestamp) -> Option<&'a TaskRecord> {
        let requested = |record: &TaskRecord| {
            record.key.namespace == request.namespace
                && request.queues.contains(&record.spec.queue)
                && request.types.as_ref().is_none_or(|types| types.contains(&record.spec.envelope.task_type))
        };
        self.records
            .values()
            .copied()
            .filter(|record| requested(record) && is_due(record, now))
            .filter(|record| slots > 0 || (record.losses == 0 && record.spec.max_losses > 0))
            .filter(|record| self.is_open(record) && self.passes_gate(record, now))
            .min_by_key(|record| (record.spec.priority, record.ready_at, record.key.id))
    }

    /// Whether its queue is neither paused nor full.
    pub(super) fn is_open(&self, record: &TaskRecord) -> bool {
        let settings = self.settings.get(&(&record.key.namespace, &record.spec.queue)).copied();
        let settings = settings.unwrap_or_default();
        let has_slot = |max: u32| self.occupied(&record.key.namespace, &record.spec.queue) < max as usize;
        !settings.paused && settings.max_running.is_none_or(has_slot)
    }

    fn occupied(&self, namespace: &Namespace, queue: &QueueName) -> usize {
        let inside =
            |record: &&&TaskRecord| record.key.namespace == *namespace && record.spec.queue == *queue;
        self.records.values().filter(inside).filter(|record| runs_or_is_held(record)).count()
    }

    /// Of one serial key, the task that has started; otherwise the lowest id that is due.
    pub(super) fn passes_gate(&self, record: &TaskRecord, now: Timestamp) -> bool {
        if record.spec.serial_key.is_none() || has_begun(record) {
            return true;
        }
        let others = self.records.values().filter(|other| {
            other.spec.serial_key == record.spec.serial_key
                && other.key.namespace == record.key.namespace
                && other.key != record.key
        });
        let mut others = others;
        !others.any(|other| has_begun(other) || (other.key.id < record.key.id && is_due(other, now)))
    }
}

fn is_due(record: &TaskRecord, now: Timestamp) -> bool {
    let expired = record.executions == 0 && record.spec.expires_at.is_some_and(|end| end <= now);
    record.state.is_waiting() && record.ready_at <= now && !expired
}

fn runs_or_is_held(record: &TaskRecord) -> bool {
    record.state == TaskState::Running || (record.state == TaskState::Cancelled && record.lease.is_some())
}

/// From its first start until it is terminal and its handler has stopped.
fn has_begun(record: &TaskRecord) -> bool {
    runs_or_is_held(record) || (record.executions > 0 && !record.state.is_terminal())
}
