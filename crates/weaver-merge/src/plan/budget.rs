//! Who may process, and how many checks may start: the seed's open points on parallel queues and their
//! priority.

use weaver_core::time::Timestamp;

use super::Policy;
use crate::domain::{MergeQueue, QueueEntry, QueueId};

/// What a queue has and wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Which queue.
    pub id: QueueId,
    /// From 0, the most urgent.
    pub priority: u8,
    /// The older goes first among equals.
    pub created_at: Timestamp,
    /// Whether an entry of it is processed.
    pub is_processing: bool,
    /// Whether it has something to process.
    pub has_work: bool,
    /// Checks under way, those being cancelled included.
    pub under_way: usize,
}

impl Demand {
    /// Of a queue.
    pub fn of(queue: &MergeQueue) -> Self {
        Self {
            id: queue.id.clone(),
            priority: queue.priority,
            created_at: queue.created_at,
            is_processing: queue.current_entry().is_some_and(QueueEntry::is_processing),
            has_work: !queue.entries.is_empty() && queue.paused.is_none(),
            under_way: queue.checks_under_way(),
        }
    }
}

/// What a queue may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Process an entry.
    pub is_active: bool,
    /// Start so many checks. All that is free: queues are planned by priority, one after the other, each with
    /// what the ones before it left.
    pub slots: usize,
}

/// What one queue may do beside the others. Queues that are processing go on (a half-tested candidate is
/// worth more than an untouched one), then come the more urgent, then the older.
pub fn allot(id: &QueueId, all: &[Demand], policy: &Policy) -> Allotment {
    let mut wanting: Vec<&Demand> = all.iter().filter(|demand| demand.has_work).collect();
    wanting.sort_by_key(|demand| (!demand.is_processing, demand.priority, demand.created_at, &demand.id));
    let is_active = wanting.iter().take(policy.max_active_queues).any(|demand| demand.id == *id);
    let under_way: usize = all.iter().map(|demand| demand.under_way).sum();
    Allotment { is_active, slots: policy.check_budget.saturating_sub(under_way) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(name: &str, priority: u8, is_processing: bool, under_way: usize) -> Demand {
        let (id, created_at) = (QueueId(name.into()), Timestamp::MIN);
        Demand { id, priority, created_at, is_processing, has_work: true, under_way }
    }

    fn active(all: &[Demand], max_active_queues: usize) -> Vec<&str> {
        let policy = Policy { max_active_queues, ..Policy::default() };
        let is_active = |demand: &&Demand| allot(&demand.id, all, &policy).is_active;
        all.iter().filter(is_active).map(|demand| demand.id.0.as_str()).collect()
    }

    #[test]
    fn the_more_urgent_queues_are_active_first_and_one_at_work_is_not_interrupted() {
        let all = [demand("a", 5, false, 0), demand("b", 1, false, 0), demand("c", 9, true, 1)];
        assert_eq!(active(&all, 1), ["c"]);
        assert_eq!(active(&all, 2), ["b", "c"]);
        assert_eq!(active(&all, 3), ["a", "b", "c"]);
    }

    #[test]
    fn a_queue_without_work_takes_no_place() {
        let idle = Demand { has_work: false, ..demand("a", 0, false, 0) };
        assert_eq!(active(&[idle, demand("b", 9, false, 0)], 1), ["b"]);
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
