//! The limits that the queues of one process share: active queues and check slots.
//!
//! Queues are planned concurrently, so a queue's stored document may be older than its newest plan. What each
//! queue planned last is kept here, and counts until its document says so: two queues never take one slot.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::domain::{MergeQueue, QueueId};
use crate::plan::{Allotment, Demand, Plan, Policy, allot};

#[derive(Default)]
pub(super) struct Shares(Mutex<State>);

#[derive(Default)]
struct State {
    planned: HashMap<QueueId, Demand>,
    /// Queues that could use more than they were allotted.
    limited: HashSet<QueueId>,
}

impl Shares {
    /// Plans a queue with its allotment, and records what the plan takes. `read` are the stored queues.
    pub(super) fn plan<E>(
        &self,
        queue: &MergeQueue,
        read: &[MergeQueue],
        policy: &Policy,
        plan: impl FnOnce(Allotment) -> Result<Plan, E>,
    ) -> Result<Plan, E> {
        let mut state = self.0.lock();
        state.planned.insert(queue.id.clone(), Demand::of(queue));
        let demand = |read| {
            let demand = Demand::of(read);
            state.planned.get(&demand.id).map_or(demand.clone(), |planned| demand.or(planned))
        };
        let all: Vec<Demand> = read.iter().map(demand).collect();
        let allotment = allot(&queue.id, &all, policy);
        let plan = plan(allotment)?;
        let taken = Demand::of(&plan.queue);
        let started = taken.active_checks.saturating_sub(queue.active_checks());
        if taken.has_work && (!allotment.is_active || started >= allotment.slots) {
            state.limited.insert(queue.id.clone());
        } else {
            state.limited.remove(&queue.id);
        }
        state.planned.insert(queue.id.clone(), taken);
        Ok(plan)
    }

    /// Queues that another one may have made room for, the most urgent first.
    pub(super) fn take_limited(&self) -> Vec<QueueId> {
        let mut state = self.0.lock();
        let mut limited: Vec<QueueId> = state.limited.drain().collect();
        limited.sort_by_key(|id| state.planned.get(id).map(|demand| (demand.priority, demand.created_at)));
        limited
    }

    /// The queue was removed.
    pub(super) fn forget(&self, queue: &QueueId) {
        let mut state = self.0.lock();
        state.planned.remove(queue);
        state.limited.remove(queue);
    }
}
