//! The state machine of a task: every transition is decided here.
//!
//! ```text
//!                     ┌────────── run_now ─┐
//!   (new) ──admit──▶ Scheduled ◀───────────┘──┐
//!     │                                       │ lease, when due
//!     └────────────▶ Queued ───────lease──────┤
//!                      │                      ▼            ┌──▶ Succeeded
//!                   assign                 Running ────────┼──▶ Dead        failed, timed out, lost
//!                      ▼      start           ▲  │         └──▶ Cancelled
//!      Orphaned ◀── Assigned ─────────────────┘  │ fail, time_out, expire_lease, release, snooze
//!        │ └─assign──▶ ▲                      ▲  ▼
//!        │             └────── assign ──── RetryScheduled ◀─┐ run_now
//!        └─── release_orphan (no leader) ──▶ ▲        └─────┘
//!   Everything that has not ended can be cancelled. Terminal states are final.
//! ```
//!
//! [`decide`] is pure: from a record and a command it computes a [`Transition`], or says why it is refused.
//!
//! A store applies the transition if and only if the record still has the version it was decided on
//! (optimistic concurrency). [`Transition::apply`] is what that does to the record.
//!
//! `lease` is the one transition that stores perform themselves, because choosing the task and leasing it
//! must be one step; the model test holds them to [`decide`].
//!
//! One file per transition; the allowed transitions are data in [`table`].

mod abandon_orphan;
mod admit;
mod assign;
mod cancel;
mod command;
mod committed;
mod end;
mod expire;
mod expire_lease;
mod fail;
mod lease;
mod logging;
mod orphan;
mod release;
mod release_orphan;
mod renew;
mod retry_as_new;
mod run_now;
mod snooze;
mod start;
mod succeed;
pub mod table;
mod time_out;
mod transition;

pub use admit::{admit, admit_at};
pub use command::{Command, Grant, OrphanCause, OverdueReason, Refused};
pub use committed::was_committed;
pub(crate) use end::recorded_before;
pub use end::{EndDecision, Ended, decide_end};
pub use logging::{LOG_AFTER_END, may_log};
pub use renew::{confirm_stopped, is_cancelled, renew};
pub use retry_as_new::retry_as_new;
pub use table::Verb;
pub use transition::{Counters, HolderChange, Transition};

use crate::lease::Lease;
use crate::outcome::{Outcome, Retry};
use crate::store_clock::StoreNow;
use crate::task::{CancelReason, TaskRecord, TaskState};

/// Decides what a command does to a record.
///
/// `now` is the latest time of the *store's* clock that the caller knows. It is used only to refuse what is
/// too early; it does not enter the transition, and the store reads its own clock when it applies it.
///
/// A store that tells durations from instants passes a [`StoreNow`]; with one clock for both, a
/// [`Timestamp`](crate::time::Timestamp) is enough.
pub fn decide(
    record: &TaskRecord,
    command: Command,
    now: impl Into<StoreNow>,
) -> Result<Transition, Refused> {
    let now = now.into();
    if record.state.is_terminal() {
        return Err(match command {
            Command::Finish { .. } => Refused::LeaseLost,
            _ => Refused::Ended { state: record.state },
        });
    }
    match command {
        Command::Lease(grant) => lease::decide(record, grant, now),
        Command::Assign { worker, epoch } => assign::decide(record, worker, epoch, now),
        Command::Start(grant) => start::decide(record, grant, now),
        Command::Orphan(cause) => orphan::decide(record, cause),
        Command::ReleaseOrphan => release_orphan::decide(record),
        Command::AbandonOrphan => abandon_orphan::decide(record),
        Command::Finish { lease, outcome } => {
            check_lease(record, &lease)?;
            match outcome {
                Outcome::Succeeded { result } => succeed::decide(record, result),
                Outcome::Failed { error, retry } => fail::decide(record, &error, retry),
                Outcome::TimedOut => time_out::decide(record),
                Outcome::Snoozed { delay } => snooze::decide(record, delay),
                Outcome::Cancelled { message } => cancel::decide_by_handler(record, &message),
                Outcome::Released => release::decide(record),
                Outcome::Committed => committed::decide(record),
            }
        }
        Command::Expire(OverdueReason::Lease) => expire_lease::decide(record),
        Command::HolderEnded { process } => expire_lease::decide_ended(record, process),
        Command::Expire(OverdueReason::ExpiresAt) => expire::decide(record, now.wall),
        // A cancellation hold is on a record that has ended: `confirm_stopped` removes it, not a transition.
        Command::Expire(OverdueReason::Hold) => {
            Err(Refused::NotAllowed { from: record.state, verb: Verb::Expire })
        }
        Command::Cancel => cancel::decide(record, CancelReason::User),
        Command::Replace => cancel::decide(record, CancelReason::Replaced),
        Command::RunNow => run_now::decide(record),
    }
}

/// A failure whose retry delay comes from the user's own function. `max_attempts` still decides whether there
/// is a retry.
pub fn failed_with(record: &TaskRecord, error: &str, delay: &crate::retry::DelayFunction) -> Outcome {
    let retry = match delay(record.failures.saturating_add(1), error) {
        Some(delay) => Retry::After(delay),
        None => Retry::ByPolicy,
    };
    Outcome::Failed { error: error.into(), retry }
}

/// Fencing: an attempt's end is accepted only under the lease it ran under (G2). The epoch is compared with
/// the one in the lease, never with the current leader's: a leader election does not end running work.
fn check_lease(record: &TaskRecord, lease: &Lease) -> Result<(), Refused> {
    let held = match &record.lease {
        Some(held) if record.state == TaskState::Running => held,
        _ => return Err(Refused::LeaseLost),
    };
    let same = record.version == lease.version && held.token == lease.token && held.epoch == lease.epoch;
    if same && record.key == lease.key { Ok(()) } else { Err(Refused::LeaseLost) }
}
