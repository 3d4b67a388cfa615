//! The allowed transitions, as data. Databases generate their guards from it, tests enumerate it, and the
//! property tests of the lifecycle check every decision against it.

use std::fmt;

use crate::task::{CancelReason, Cause, TaskState};

/// What causes a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// A worker pulls it: assign and start in one step.
    Lease,
    /// A leader assigns it to a worker.
    Assign,
    /// The worker it was assigned to starts it.
    Start,
    /// The worker it was assigned to fell silent before starting it: a loss.
    Orphan,
    /// The assignment is taken from a worker that has not started it, for another reason.
    Recall,
    /// An orphaned task is released, because there is no leader to assign it again.
    ReleaseOrphan,
    /// A leader ends an orphaned task whose `max_losses` is exceeded.
    AbandonOrphan,
    /// Its handler returned without an error.
    Succeed,
    /// Its handler returned an error.
    Fail,
    /// Its handler took longer than the task's timeout.
    TimeOut,
    /// Its worker did not renew the lease in time: the attempt is lost.
    ExpireLease,
    /// Its worker shuts down and releases it unharmed.
    Release,
    /// Its handler asks to be called again later.
    Snooze,
    /// A user, a schedule's policy or its own handler cancels it.
    Cancel,
    /// It did not start before its `expires_at`.
    Expire,
    /// A user makes it due now.
    RunNow,
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Lease => "be leased",
            Self::Assign => "be assigned",
            Self::Start => "be started by the worker it is assigned to",
            Self::Orphan => "be orphaned",
            Self::Recall => "be taken from its worker",
            Self::ReleaseOrphan => "be released as an orphan",
            Self::AbandonOrphan => "be abandoned",
            Self::Succeed => "succeed",
            Self::Fail => "fail",
            Self::TimeOut => "time out",
            Self::ExpireLease => "have its lease expire",
            Self::Release => "be released",
            Self::Snooze => "be snoozed",
            Self::Cancel => "be cancelled",
            Self::Expire => "expire",
            Self::RunNow => "be made due now",
        })
    }
}

/// What a transition adds to the counters of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// To `attempt`: it was leased or assigned.
    pub attempt: u32,
    /// To `executions`: a handler was started.
    pub executions: u32,
    /// To `failures`: that handler failed or timed out.
    pub failures: u32,
    /// To `losses`: its worker was lost.
    pub losses: u32,
}

impl Verb {
    /// What it adds to the counters: exactly this, whatever state it leads to.
    pub const fn charge(self) -> Charge {
        let none = Charge { attempt: 0, executions: 0, failures: 0, losses: 0 };
        match self {
            Self::Lease => Charge { attempt: 1, executions: 1, ..none },
            Self::Assign => Charge { attempt: 1, ..none },
            Self::Start => Charge { executions: 1, ..none },
            Self::Fail | Self::TimeOut => Charge { failures: 1, ..none },
            Self::Orphan | Self::ExpireLease => Charge { losses: 1, ..none },
            Self::Recall
            | Self::ReleaseOrphan
            | Self::AbandonOrphan
            | Self::Succeed
            | Self::Release
            | Self::Snooze
            | Self::Cancel
            | Self::Expire
            | Self::RunNow => none,
        }
    }
}

/// Whether a record of a state carries something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must be absent.
    Never,
    /// It may be present.
    Maybe,
    /// It must be present and complete: a lease with a missing column counts as none.
    Always,
}

/// What a record of a state carries besides its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// A lease; on a cancelled task the cancellation hold.
    pub lease: Presence,
    /// An assignment: worker, epoch, time.
    pub assignment: Presence,
    /// The time of its end; only terminal states have one.
    pub finished_at: Presence,
}

impl TaskState {
    /// What a record of this state carries. Databases generate their guards from it.
    pub const fn shape(self) -> Shape {
        use Presence::{Always, Maybe, Never};
        match self {
            Self::Queued | Self::Scheduled | Self::RetryScheduled | Self::Orphaned => {
                Shape { lease: Never, assignment: Never, finished_at: Never }
            }
            Self::Assigned => Shape { lease: Never, assignment: Always, finished_at: Never },
            // Assigned work keeps its assignment while it runs; pulled work has none.
            Self::Running => Shape { lease: Always, assignment: Maybe, finished_at: Never },
            Self::Succeeded | Self::Dead => Shape { lease: Never, assignment: Never, finished_at: Always },
            Self::Cancelled => Shape { lease: Maybe, assignment: Never, finished_at: Always },
        }
    }
}

/// One allowed transition, as a row of [`RULES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The state before; never a terminal one.
    pub from: TaskState,
    /// What causes the transition.
    pub verb: Verb,
    /// The state after; `from` itself for [`Verb::RunNow`].
    pub to: TaskState,
    /// The cause stored with the new state, if that state has one.
    pub cause: Option<Cause>,
}

const fn rule(from: TaskState, verb: Verb, to: TaskState) -> Rule {
    Rule { from, verb, to, cause: None }
}

const fn because(from: TaskState, verb: Verb, to: TaskState, cause: Cause) -> Rule {
    Rule { from, verb, to, cause: Some(cause) }
}

/// The states a new task may have.
pub const ENTRY: [TaskState; 2] = [TaskState::Queued, TaskState::Scheduled];

/// Every allowed transition. A due `Scheduled` task counts as `Queued` without a write in between, so it is
/// leased and assigned like one.
pub const RULES: &[Rule] = {
    use CancelReason::{Expired, Handler, Replaced, User};
    use Cause::{Failed, Lost, Released, Snoozed, TimedOut};
    use TaskState::{
        Assigned, Cancelled, Dead, Orphaned, Queued, RetryScheduled, Running, Scheduled, Succeeded,
    };
    &[
        rule(Queued, Verb::Lease, Running),
        rule(Queued, Verb::Assign, Assigned),
        because(Queued, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(Queued, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        because(Queued, Verb::Expire, Cancelled, Cause::Cancelled(Expired)),
        rule(Scheduled, Verb::Lease, Running),
        rule(Scheduled, Verb::Assign, Assigned),
        rule(Scheduled, Verb::RunNow, Scheduled),
        because(Scheduled, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(Scheduled, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        because(Scheduled, Verb::Expire, Cancelled, Cause::Cancelled(Expired)),
        rule(Assigned, Verb::Start, Running),
        rule(Assigned, Verb::Orphan, Orphaned),
        rule(Assigned, Verb::Recall, Orphaned),
        because(Assigned, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(Assigned, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        because(Assigned, Verb::Expire, Cancelled, Cause::Cancelled(Expired)),
        rule(Orphaned, Verb::Assign, Assigned),
        because(Orphaned, Verb::ReleaseOrphan, RetryScheduled, Released),
        because(Orphaned, Verb::AbandonOrphan, Dead, Lost),
        because(Orphaned, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(Orphaned, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        because(Orphaned, Verb::Expire, Cancelled, Cause::Cancelled(Expired)),
        rule(Running, Verb::Succeed, Succeeded),
        because(Running, Verb::Fail, RetryScheduled, Failed),
        because(Running, Verb::Fail, Dead, Failed),
        because(Running, Verb::TimeOut, RetryScheduled, TimedOut),
        because(Running, Verb::TimeOut, Dead, TimedOut),
        because(Running, Verb::ExpireLease, RetryScheduled, Lost),
        because(Running, Verb::ExpireLease, Dead, Lost),
        because(Running, Verb::Release, RetryScheduled, Released),
        because(Running, Verb::Snooze, RetryScheduled, Snoozed),
        because(Running, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(Running, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        because(Running, Verb::Cancel, Cancelled, Cause::Cancelled(Handler)),
        rule(RetryScheduled, Verb::Lease, Running),
        rule(RetryScheduled, Verb::Assign, Assigned),
        because(RetryScheduled, Verb::RunNow, RetryScheduled, Failed),
        because(RetryScheduled, Verb::RunNow, RetryScheduled, TimedOut),
        because(RetryScheduled, Verb::RunNow, RetryScheduled, Lost),
        because(RetryScheduled, Verb::RunNow, RetryScheduled, Released),
        because(RetryScheduled, Verb::RunNow, RetryScheduled, Snoozed),
        because(RetryScheduled, Verb::Cancel, Cancelled, Cause::Cancelled(User)),
        because(RetryScheduled, Verb::Cancel, Cancelled, Cause::Cancelled(Replaced)),
        // An orphan that was released has not started yet.
        because(RetryScheduled, Verb::Expire, Cancelled, Cause::Cancelled(Expired)),
    ]
};

/// Whether the table has this transition.
pub fn allows(from: TaskState, verb: Verb, to: TaskState, cause: Option<Cause>) -> bool {
    RULES.contains(&Rule { from, verb, to, cause })
}

/// Whether any transition leads from one state to the other.
pub fn connects(from: TaskState, to: TaskState) -> bool {
    RULES.iter().any(|rule| rule.from == from && rule.to == to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_of_the_design() {
        use TaskState::*;
        // DESIGN section 3, state by state: where each may go. A due scheduled task is queued by implication.
        let design: [(TaskState, &[TaskState]); 9] = [
            (Queued, &[Assigned, Running, Cancelled]),
            (Scheduled, &[Scheduled, Assigned, Running, Cancelled]),
            (Assigned, &[Orphaned, Running, Cancelled]),
            (Orphaned, &[Assigned, RetryScheduled, Dead, Cancelled]),
            (Running, &[RetryScheduled, Succeeded, Dead, Cancelled]),
            (RetryScheduled, &[Assigned, Running, RetryScheduled, Cancelled]),
            (Succeeded, &[]),
            (Dead, &[]),
            (Cancelled, &[]),
        ];
        for (from, allowed) in design {
            for to in TaskState::ALL {
                assert_eq!(connects(from, to), allowed.contains(&to), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn no_rule_leaves_a_terminal_state_and_none_is_listed_twice() {
        for (index, rule) in RULES.iter().enumerate() {
            assert!(!rule.from.is_terminal(), "{rule:?}");
            assert!(!RULES[..index].contains(rule), "{rule:?} is listed twice");
        }
    }
}
