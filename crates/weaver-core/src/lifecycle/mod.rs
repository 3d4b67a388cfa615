//! The state machine: the one place that knows how a task moves.
//!
//! ```text
//!                     ┌────────── run_now ─┐
//!   (new) ──admit──▶ Scheduled ◀───────────┘──┐
//!     │                                       │ lease, when due
//!     └────────────▶ Queued ───────lease──────┤
//!                      │                      ▼            ┌──▶ Succeeded
//!                   assign                 Running ────────┼──▶ Dead        failed, timed out, lost
//!                      ▼      start           ▲  │         └──▶ Cancelled
//!      Orphaned ◀── Assigned ─────────────────┘  │ fail, time_out, lose, release, snooze
//!          └─assign──▶ ▲                      ▲  ▼
//!                      └────── assign ──── RetryScheduled ◀─┐ run_now
//!                                                     └─────┘
//!   Everything that has not ended can be cancelled. Nothing that has ended moves, ever.
//! ```
//!
//! [`decide`] is pure: from a record and a command it computes a [`Transition`], or says why not. A store
//! applies the transition if and only if the record still has the version it was decided on;
//! [`Transition::apply`] says what that does to the record. `lease` is the one transition stores perform
//! themselves, because choosing the task and taking it must be one step; the model test holds them to
//! [`decide`].
//!
//! One file per transition; the allowed moves are data in [`table`].

mod admit;
mod again;
mod assign;
mod bury;
mod cancel;
mod command;
mod committed;
mod end;
mod expire;
mod fail;
mod lease;
mod logging;
mod lose;
mod orphan;
mod release;
mod renew;
mod run_now;
mod snooze;
mod start;
mod succeed;
pub mod table;
mod time_out;
mod transition;

pub use admit::{admit, admit_at};
pub use again::again;
pub use command::{Command, Grant, OverdueWhy, Refused};
pub use committed::was_committed;
pub(crate) use end::recorded_before;
pub use end::{EndDecision, Ended, decide_end};
pub use logging::{LOG_AFTER_END, may_log};
pub use renew::{confirm_stopped, is_cancelled, renew};
pub use table::Verb;
pub use transition::{Counters, HolderChange, Transition};

use crate::lease::Lease;
use crate::outcome::{Outcome, Retry};
use crate::store_clock::StoreNow;
use crate::task::{CancelReason, TaskRecord, TaskState};

/// Decides what a command does to a record.
///
/// `now` is the newest time of the *store's* clock that the caller knows. It is used only to refuse what is
/// plainly too early; no instant of it enters the transition, and the store looks at its own clock again when
/// it applies it.
///
/// A store that tells spans from instants gives a [`StoreNow`]; with one clock for both, a
/// [`Timestamp`](crate::time::Timestamp) does.
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
        Command::Orphan => orphan::decide(record),
        Command::Bury => bury::decide(record),
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
        Command::Expire(OverdueWhy::Lease) => lose::decide(record),
        Command::Expire(OverdueWhy::ExpiresAt) => expire::decide(record, now.wall),
        // A hold belongs to a record that has ended; it is removed by `confirm_stopped`, not by a transition.
        Command::Expire(OverdueWhy::Hold) => {
            Err(Refused::NotAllowed { from: record.state, verb: Verb::Expire })
        }
        Command::Cancel => cancel::decide(record, CancelReason::User),
        Command::Replace => cancel::decide(record, CancelReason::Replaced),
        Command::RunNow => run_now::decide(record),
    }
}

/// A failure whose delay the user's own function supplies; it has no say in anything else.
pub fn failed_with(record: &TaskRecord, error: &str, delay: &crate::retry::DelayFunction) -> Outcome {
    let retry = match delay(record.failures.saturating_add(1), error) {
        Some(delay) => Retry::After(delay),
        None => Retry::ByPolicy,
    };
    Outcome::Failed { error: error.into(), retry }
}

/// The end of an attempt is reported under the lease it ran under, or not at all (G2). The epoch is compared
/// with the one in the lease, never with the current leader's: a new leader does not kill running work.
fn check_lease(record: &TaskRecord, lease: &Lease) -> Result<(), Refused> {
    let held = match &record.lease {
        Some(held) if record.state == TaskState::Running => held,
        _ => return Err(Refused::LeaseLost),
    };
    let same = record.version == lease.version && held.token == lease.token && held.epoch == lease.epoch;
    if same && record.key == lease.key { Ok(()) } else { Err(Refused::LeaseLost) }
}
