//! State and cause in one byte: four bits each. The numbers belong to the format, not to the order of the
//! enumerations.

use weaver_core::task::{CancelReason, Cause, ReadyBy, TaskState};

use crate::codec::Undecodable;

/// A scheduled task that waits for an instant (`run_at`) rather than a delay: it follows the wall clock.
const SCHEDULED_AT_INSTANT: u8 = 9;

pub(super) fn byte_of(state: TaskState, ready_by: ReadyBy, cause: Option<Cause>) -> u8 {
    let state = match state {
        TaskState::Queued => 0,
        TaskState::Scheduled if ready_by == ReadyBy::Instant => SCHEDULED_AT_INSTANT,
        TaskState::Scheduled => 1,
        TaskState::Assigned => 2,
        TaskState::Orphaned => 3,
        TaskState::Running => 4,
        TaskState::RetryScheduled => 5,
        TaskState::Succeeded => 6,
        TaskState::Dead => 7,
        TaskState::Cancelled => 8,
    };
    let cause = match cause {
        None => 0,
        Some(Cause::Failed) => 1,
        Some(Cause::TimedOut) => 2,
        Some(Cause::Lost) => 3,
        Some(Cause::Released) => 4,
        Some(Cause::Snoozed) => 5,
        Some(Cause::Cancelled(CancelReason::User)) => 6,
        Some(Cause::Cancelled(CancelReason::Handler)) => 7,
        Some(Cause::Cancelled(CancelReason::Expired)) => 8,
        Some(Cause::Cancelled(CancelReason::Replaced)) => 9,
    };
    cause << 4 | state
}

pub(super) fn of_byte(byte: u8) -> Result<(TaskState, ReadyBy, Option<Cause>), Undecodable> {
    let ready_by = if byte & 0xf == SCHEDULED_AT_INSTANT { ReadyBy::Instant } else { ReadyBy::Span };
    let state = match byte & 0xf {
        0 => TaskState::Queued,
        1 | SCHEDULED_AT_INSTANT => TaskState::Scheduled,
        2 => TaskState::Assigned,
        3 => TaskState::Orphaned,
        4 => TaskState::Running,
        5 => TaskState::RetryScheduled,
        6 => TaskState::Succeeded,
        7 => TaskState::Dead,
        8 => TaskState::Cancelled,
        other => return Err(Undecodable::unknown("state", other)),
    };
    let cause = match byte >> 4 {
        0 => None,
        1 => Some(Cause::Failed),
        2 => Some(Cause::TimedOut),
        3 => Some(Cause::Lost),
        4 => Some(Cause::Released),
        5 => Some(Cause::Snoozed),
        6 => Some(Cause::Cancelled(CancelReason::User)),
        7 => Some(Cause::Cancelled(CancelReason::Handler)),
        8 => Some(Cause::Cancelled(CancelReason::Expired)),
        9 => Some(Cause::Cancelled(CancelReason::Replaced)),
        other => return Err(Undecodable::unknown("cause", other)),
    };
    Ok((state, ready_by, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_state_and_a_cause_of_its_own_or_refused() {
        let known = (0..=u8::MAX).filter(|byte| match of_byte(*byte) {
            Ok((state, ready_by, cause)) => byte_of(state, ready_by, cause) == *byte,
            Err(_) => false,
        });
        assert_eq!(known.count(), (TaskState::ALL.len() + 1) * 10);
    }
}
