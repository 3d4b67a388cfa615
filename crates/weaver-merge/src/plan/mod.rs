//! Planning: the stored queue and observations in, the next queue and actions out.
//!
//! It is pure, so that every situation can be tested without git or a store.
//!
//! ```text
//! queue ─┐                     ┌─▶ queue, saved first            ┌─▶ queue, saved again
//!        ├─▶ plan(…, now) ─────┤                                 │
//! seen ──┘                     └─▶ actions ─▶ effects ─▶ Report ─┴─ apply(report)
//! ```
//!
//! A plan moves each entry along at most one edge.
//!
//! After a crash between any two arrows, planning again gives the same actions, and each action is
//! idempotent. Building a candidate makes the same objects. Starting a run finds the run's task by its
//! idempotency key. Landing is a compare-and-set from the tested parent.

mod action;
mod apply;
mod budget;
mod checks;
mod eject;
mod foreign;
mod head;
mod observe;
mod policy;
mod remove;

pub use action::{Action, Report};
pub use apply::apply;
pub use budget::{Allotment, Demand, allot};
pub use observe::{BaseSeen, CheckSet, Observations, PullRequestSeen, RunSeen};
pub use policy::Policy;

use weaver_core::time::Timestamp;

use crate::domain::{MergeError, MergeQueue};

/// Result of planning: the next queue and its actions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan does nothing until it is saved and its actions are done"]
pub struct Plan {
    /// To be saved before any action is performed.
    pub queue: MergeQueue,
    /// To be performed after that, in order.
    pub actions: Vec<Action>,
    /// When to plan again at the latest; none to wait for a change.
    pub wake_at: Option<Timestamp>,
}

/// Plans the next step of a queue.
///
/// # Errors
/// The broken invariant, if the stored queue is corrupted.
pub fn plan(
    queue: &MergeQueue,
    seen: &Observations,
    policy: &Policy,
    now: Timestamp,
) -> Result<Plan, MergeError> {
    let mut plan = Plan { queue: queue.clone(), actions: Vec::new(), wake_at: None };
    if queue.removal.is_some() {
        plan.drop_stopped(seen);
        plan.advance_removal(seen, now)?;
        return Ok(plan);
    }
    queue.validate()?;
    plan.drop_stopped(seen);
    let base = match &seen.base {
        BaseSeen::Tip { oid, checks } => (oid, checks),
        BaseSeen::Missing(what) => {
            plan.queue.pause(MergeError::RepositoryNotFound(what.clone()).to_string(), now);
            return Ok(plan);
        }
        // Transient: nothing is known that could be acted on.
        BaseSeen::Unreachable(_) => return Ok(plan),
    };
    // First: a change that landed has landed, whatever happened to its branch since.
    if plan.detect_landing(seen, now)? {
        return Ok(plan);
    }
    if plan.handle_foreign_move(seen, now) {
        return Ok(plan);
    }
    plan.eject_withdrawn(seen, base.0, now)?;
    // Without a readable setting the entries wait.
    if let Ok(checks) = base.1 {
        plan.follow_pushes(seen, base.0, checks.on_push, now)?;
    }
    if plan.queue.paused.is_none() && seen.is_active {
        let checks = match base.1 {
            Ok(checks) => checks,
            Err(problem) => {
                plan.queue.pause(format!("the configuration on the base branch is invalid: {problem}"), now);
                return Ok(plan);
            }
        };
        plan.advance_head(seen, base.0, checks, policy, now)?;
    }
    debug_assert_eq!(plan.queue.validate_after(queue), Ok(()));
    Ok(plan)
}

impl Plan {
    /// Forgets cancelled tasks that have ended, and cancels the others again: the process that was to cancel
    /// them may have died.
    fn drop_stopped(&mut self, seen: &Observations) {
        self.queue.stopping.retain(|task| !seen.runs.get(task).is_some_and(RunSeen::is_ended));
        self.actions.extend(self.queue.stopping.iter().map(|task| Action::StopCheck { task: *task }));
    }

    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    fn stop(&mut self, tasks: Vec<weaver_core::id::TaskId>) {
        self.actions.extend(tasks.into_iter().map(|task| Action::StopCheck { task }));
    }
}
