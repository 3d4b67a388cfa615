//! Concurrency limits over all queues: which queues are active, and how many checks may start. The seed left
//! parallel queues and their priority open.

use weaver_core::time::Timestamp;

use super::Policy;
use crate::domain::{MergeQueue, QueueEntry, QueueId};

/// A queue's claim on the shared limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Id of the claiming queue.
    pub id: QueueId,
    /// 0 to 9, 0 the most urgent.
    pub priority: u8,
    /// Older queues go first among equals.
    pub created_at: Timestamp,
    /// Whether its head is being processed.
    pub is_processing: bool,
    /// Whether it has entries, and is neither paused nor being removed.
    pub has_work: bool,
    /// Active check runs, including those being cancelled.
    pub active_checks: usize,
}

impl Demand {
    /// Derives the demand of a queue.
    pub fn of(queue: &MergeQueue) -> Self {
        Self {
            id: queue.id.clone(),
            priority: queue.priority,
            created_at: queue.created_at,
            is_processing: queue.current_entry().is_some_and(QueueEntry::is_processing),
            has_work: !queue.entries.is_empty() && queue.paused.is_none() && queue.removal.is_none(),
            active_checks: queue.active_checks(),
        }
    }

    /// With what a newer plan of the same queue takes: the larger claim counts until the plan is stored.
    #[must_use]
    pub fn or(mut self, planned: &Self) -> Self {
        self.is_processing |= planned.is_processing && self.has_work;
        self.active_checks = self.active_checks.max(planned.active_checks);
        self
    }
}

/// A queue's share of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Whether it may process an entry.
    pub is_active: bool,
    /// Checks it may start: all free ones. Queues are planned one after the other, each with what the ones
    /// before it left.
    pub slots: usize,
}

/// Allots the limits to one queue. Queues that are processing go on (a half-tested candidate is worth more
/// than an untouched one), then more urgent queues, then older ones.
pub fn allot(id: &QueueId, all: &[Demand], policy: &Policy) -> Allotment {
    let mut wanting: Vec<&Demand> = all.iter().filter(|demand| demand.has_work).collect();
    wanting.sort_by_key(|demand| (!demand.is_processing, demand.priority, demand.created_at, &demand.id));
    let is_active = wanting.iter().take(policy.max_active_queues).any(|demand| demand.id == *id);
    let active_checks: usize = all.iter().map(|demand| demand.active_checks).sum();
    Allotment { is_active, slots: policy.check_budget.saturating_sub(active_checks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(name: &str, priority: u8, is_processing: bool, active_checks: usize) -> Demand {
        let (id, created_at) = (QueueId(name.into()), Timestamp::MIN);
        Demand { id, priority, created_at, is_processing, has_work: true, active_checks }
    }

    fn active(all: &[Demand], max_active_queues: usize) -> Vec<&str> {
        let policy = Policy { max_active_queues, ..Policy::default() };
        let is_active = |demand: &&Demand| allot(&demand.id, all, &policy).is_active;
        all.iter().filter(is_active).map(|demand| demand.id.0.as_str()).collect()
    }

    #[test]
    fn more_urgent_queues_are_active_first_and_a_processing_one_is_not_interrupted() {
        let all = [demand("a", 5, false, 0), demand("b", 1, false, 0), demand("c", 9, true, 1)];
        assert_eq!(active(&all, 1), ["c"]);
        assert_eq!(active(&all, 2), ["b", "c"]);
        assert_eq!(active(&all, 3), ["a", "b", "c"]);
    }

    #[test]
    fn a_queue_without_work_takes_no_active_slot() {
        let idle = Demand { has_work: false, ..demand("a", 0, false, 0) };
        assert_eq!(active(&[idle, demand("b", 9, false, 0)], 1), ["b"]);
    }

    #[test]
    fn a_plan_that_is_not_stored_yet_counts_against_the_limits() {
        let (stored, planned) = (demand("a", 5, false, 0), demand("a", 5, true, 3));
        let policy = Policy { check_budget: 4, max_active_queues: 1, ..Policy::default() };
        let all = [stored.or(&planned), demand("b", 1, false, 0)];
        let other = allot(&all[1].id, &all, &policy);
        assert_eq!((other.is_active, other.slots), (false, 1));
    }

    #[test]
    fn checks_of_every_queue_count_against_the_budget() {
        let policy = Policy { check_budget: 4, ..Policy::default() };
        let all = [demand("a", 5, true, 1), demand("b", 5, true, 2)];
        assert_eq!(allot(&all[0].id, &all, &policy).slots, 1);
        let all = [demand("a", 5, true, 1), demand("b", 5, true, 7)];
        assert_eq!(allot(&all[0].id, &all, &policy).slots, 0);
    }
}
