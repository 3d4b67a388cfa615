//! Planning: what is stored and what is seen in, what will be stored and what is to be done out. Pure, so
//! that every situation is a test.
//!
//! ```text
//! queue ─┐                     ┌─▶ queue, saved first            ┌─▶ queue, saved again
//!        ├─▶ plan(…, now) ─────┤                                 │
//! seen ──┘                     └─▶ actions ─▶ effects ─▶ Report ─┴─ apply(report)
//! ```
//!
//! A plan moves each entry along at most one edge. Whatever stops between the arrows, planning again from
//! what is stored and seen comes to the same actions, and each of those can be repeated: building makes the
//! same objects, starting a run finds the task of that run, landing moves the base from the tested parent or
//! not at all.

mod action;
mod apply;
mod budget;
mod checks;
mod foreign;
mod head;
mod leave;
mod observe;
mod policy;

pub use action::{Action, Report};
pub use apply::apply;
pub use budget::{Allotment, Demand, allot};
pub use observe::{BaseSeen, CheckSet, Observations, PullRequestSeen, RunSeen};
pub use policy::Policy;

use weaver_core::time::Timestamp;

use crate::domain::{MergeError, MergeQueue};

/// What comes of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan does nothing until it is saved and its actions are done"]
pub struct Plan {
    /// The queue as it is to be saved before anything is done.
    pub queue: MergeQueue,
    /// What to do then, in order.
    pub actions: Vec<Action>,
    /// When to plan again, if nothing happens before.
    pub wake_at: Option<Timestamp>,
}

/// Plans.
///
/// # Errors
/// If the queue is not one that was ever saved: [`MergeError::QueueCorrupted`] or one of the broken
/// invariants.
pub fn plan(
    queue: &MergeQueue,
    seen: &Observations,
    policy: &Policy,
    now: Timestamp,
) -> Result<Plan, MergeError> {
    queue.validate()?;
    let mut plan = Plan { queue: queue.clone(), actions: Vec::new(), wake_at: None };
    plan.settle(seen);
    let base = match &seen.base {
        BaseSeen::Tip { oid, checks } => (oid, checks),
        BaseSeen::Gone(what) => {
            plan.queue.pause(MergeError::RepositoryNotFound(what.clone()).to_string(), now);
            return Ok(plan);
        }
        // It will pass; nothing is known that could be acted on.
        BaseSeen::Unreachable(_) => return Ok(plan),
    };
    // Before anything else: a change that landed has landed, whatever became of its branch since.
    if plan.note_landing(seen, now)? {
        return Ok(plan);
    }
    if plan.take_foreign(seen, now) {
        return Ok(plan);
    }
    plan.take_out_departed(seen, base.0, now)?;
    if plan.queue.paused.is_none() && seen.is_active {
        let checks = match base.1 {
            Ok(checks) => checks,
            Err(problem) => {
                plan.queue.pause(format!("the checks of the base cannot be read: {problem}"), now);
                return Ok(plan);
            }
        };
        plan.move_head(seen, base.0, checks, policy, now)?;
    }
    debug_assert_eq!(plan.queue.validate_after(queue), Ok(()));
    Ok(plan)
}

impl Plan {
    /// Forgets the tasks that were told to stop and have.
    fn settle(&mut self, seen: &Observations) {
        self.queue.stopping.retain(|task| !seen.runs.get(task).is_some_and(RunSeen::is_over));
        // Telling them again costs nothing; whoever was to tell them may have died before.
        self.actions.extend(self.queue.stopping.iter().map(|task| Action::StopCheck { task: *task }));
    }

    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    fn stop(&mut self, tasks: Vec<weaver_core::id::TaskId>) {
        self.actions.extend(tasks.into_iter().map(|task| Action::StopCheck { task }));
    }
}
