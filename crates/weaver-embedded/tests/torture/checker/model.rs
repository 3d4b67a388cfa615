//! A task derived from its history: an independent implementation of the lifecycle rules.

use weaver_core::id::LeaseToken;
use weaver_core::task::{AttemptOutcome, CancelReason, Cause, TaskState};

use crate::wire::{Member, Move, Snapshot};

/// What moves a task from one version to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Lease(LeaseToken),
    /// By one of the lease calls that were never answered.
    UnseenLease,
    Move(Move),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Free,
    By(LeaseToken),
    Unseen,
}

/// A task at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) version: u64,
    pub(super) state: TaskState,
    pub(super) held: Held,
    max_attempts: u32,
    max_losses: u32,
    cause: Option<Cause>,
    counts: [u32; 4],
    result: Option<String>,
    error: Option<String>,
    attempts: Vec<(u64, AttemptOutcome)>,
}

const EXECUTIONS: usize = 0;
const FAILURES: usize = 1;
const LOSSES: usize = 2;
const ATTEMPT: usize = 3;
/// How many attempts a record keeps.
const KEPT: usize = 20;

impl Model {
    pub(super) fn new(member: &Member) -> Self {
        Self {
            version: 1,
            state: if member.delayed { TaskState::Scheduled } else { TaskState::Queued },
            held: Held::Free,
            max_attempts: member.max_attempts,
            max_losses: member.max_losses,
            cause: None,
            counts: [0; 4],
            result: None,
            error: None,
            attempts: Vec::new(),
        }
    }

    /// The task one version later, or `None` if the step is not allowed.
    pub(super) fn after(&self, step: &Step) -> Option<Self> {
        if self.state.is_terminal() {
            return None;
        }
        let mut next = Self { version: self.version + 1, ..self.clone() };
        match step {
            Step::Lease(token) => next.lease(Held::By(*token))?,
            Step::UnseenLease => next.lease(Held::Unseen)?,
            Step::Move(Move::Cancel) => {
                next.state = TaskState::Cancelled;
                next.cause = Some(Cause::Cancelled(CancelReason::User));
                if self.state == TaskState::Running {
                    // The lease stays as a cancellation hold.
                    next.end_attempt(self.version, AttemptOutcome::Cancelled);
                }
            }
            Step::Move(Move::RunNow) => {
                matches!(self.state, TaskState::Scheduled | TaskState::RetryScheduled).then_some(())?;
            }
            Step::Move(end) => next.end(self, end)?,
        }
        Some(next)
    }

    fn lease(&mut self, held: Held) -> Option<()> {
        self.state.is_waiting().then_some(())?;
        self.state = TaskState::Running;
        self.cause = None;
        self.counts[EXECUTIONS] += 1;
        self.counts[ATTEMPT] += 1;
        self.held = held;
        Some(())
    }

    fn end(&mut self, before: &Self, end: &Move) -> Option<()> {
        (before.state == TaskState::Running).then_some(())?;
        self.held = Held::Free;
        let (state, cause, outcome) = match end {
            Move::Succeed(result) => {
                self.result = Some(result.clone());
                (TaskState::Succeeded, None, AttemptOutcome::Succeeded)
            }
            Move::Fail(error) | Move::Fatal(error) => {
                self.error = Some(error.clone());
                self.counts[FAILURES] += 1;
                let last = matches!(end, Move::Fatal(_)) || self.counts[FAILURES] == self.max_attempts;
                (again_unless(last), Some(Cause::Failed), AttemptOutcome::Failed)
            }
            Move::ExpireLease => {
                self.error = Some(LOST.to_owned());
                self.counts[LOSSES] += 1;
                let last = self.counts[LOSSES] > self.max_losses;
                (again_unless(last), Some(Cause::Lost), AttemptOutcome::Lost)
            }
            Move::Snooze => (TaskState::RetryScheduled, Some(Cause::Snoozed), AttemptOutcome::Snoozed),
            Move::Release => (TaskState::RetryScheduled, Some(Cause::Released), AttemptOutcome::Released),
            Move::Quit(message) => {
                self.error = Some(message.clone());
                let cause = Cause::Cancelled(CancelReason::Handler);
                (TaskState::Cancelled, Some(cause), AttemptOutcome::Cancelled)
            }
            Move::Cancel | Move::RunNow => return None,
        };
        (self.state, self.cause) = (state, cause);
        self.end_attempt(before.version, outcome);
        Some(())
    }

    fn end_attempt(&mut self, fence: u64, outcome: AttemptOutcome) {
        self.attempts.push((fence, outcome));
        let more = self.attempts.len().saturating_sub(KEPT);
        self.attempts.drain(..more);
    }

    /// Whether counters and attempts match.
    pub(super) fn counts_as(&self, snapshot: &Snapshot) -> bool {
        self.counts == snapshot.counts && self.attempts == snapshot.attempts
    }

    /// Whether everything else matches, except the lease, which is checked separately.
    pub(super) fn looks_like(&self, snapshot: &Snapshot) -> bool {
        let error = snapshot.error.as_deref().map(|error| if error.starts_with(LOST) { LOST } else { error });
        self.version == snapshot.version
            && self.state == snapshot.state
            && self.cause == snapshot.cause
            && self.result == snapshot.result
            && self.error.as_deref() == error
    }
}

/// The beginning of the error of an expired lease; the worker's id follows.
const LOST: &str = "lease expired";

fn again_unless(last: bool) -> TaskState {
    if last { TaskState::Dead } else { TaskState::RetryScheduled }
}
