//! The clock that a store's answers go by, watched: PostgreSQL's, or on DynamoDB this machine's. Set while
//! the server runs, it ends leases and delays too early or too late, so a jump is logged and shown by
//! `/readyz`. (Memory and embedded have a time of their own, which does not jump: ADR 0043.)

use std::time::Duration;

use parking_lot::Mutex;
use weaver_api::ClockJumped;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::name::Namespace;
use weaver_core::ports::{Scope, Store};
use weaver_core::time::{Monotonic, Timestamp};

/// A difference up to this, beyond what the question took, is none.
const TOLERANCE: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a jump is shown.
const SHOWN_FOR: Duration = Duration::from_secs(3600);

/// What is known of the store's clock.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the store's clock said, and when that was on our own.
    last: Option<(Monotonic, Timestamp)>,
    jump: Option<(Monotonic, ClockJumped)>,
}

impl ClockWatch {
    /// Asks the store for its time; the last jump, if it was within the hour.
    pub(crate) async fn look(&self, store: &dyn Store, clock: &dyn Clock) -> Result<Option<ClockJumped>> {
        let sent_at = clock.monotonic();
        let says = store.counts(Scope::Namespace(Namespace::default())).await?.as_of;
        Ok(self.note(sent_at, clock.monotonic(), says))
    }

    /// Looks for ever.
    pub(crate) async fn run(&self, store: &dyn Store, clock: &dyn Clock) {
        loop {
            if let Err(error) = self.look(store, clock).await {
                tracing::debug!(%error, "the store does not tell its time");
            }
            clock.sleep_until(clock.monotonic().saturating_add(LOOK_EVERY)).await;
        }
    }

    /// Takes in what the store's clock said between two moments of ours.
    fn note(&self, sent_at: Monotonic, heard_at: Monotonic, says: Timestamp) -> Option<ClockJumped> {
        let mut known = self.known.lock();
        if let Some((last_at, said)) = known.last {
            let passed =
                i128::try_from(heard_at.0.saturating_sub(last_at.0).as_micros()).unwrap_or(i128::MAX);
            let by_us = i128::from(says.as_micros()) - i128::from(said.as_micros()) - passed;
            let asking = heard_at.0.saturating_sub(sent_at.0).saturating_add(TOLERANCE);
            if by_us.unsigned_abs() > asking.as_micros() {
                let by_ms = i64::try_from(by_us / 1000).unwrap_or(i64::MAX);
                tracing::warn!(
                    by_ms,
                    "the store's clock was set: leases and delays of this moment end early or late"
                );
                known.jump = Some((heard_at, ClockJumped { by_ms, seen_at: says }));
            }
        }
        // A slow answer is as old as its way was long: measured against, the next would look like a jump.
        if known.last.is_none() || heard_at.0.saturating_sub(sent_at.0) <= TOLERANCE / 2 {
            known.last = Some((heard_at, says));
        }
        let is_recent = |at: Monotonic| heard_at.0.saturating_sub(at.0) <= SHOWN_FOR;
        known.jump.as_ref().filter(|(at, _)| is_recent(*at)).map(|(_, jump)| *jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic(Duration::from_millis(millis))
    }

    fn says(millis: i64) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000 + millis * 1000)
    }

    #[test]
    fn a_clock_that_goes_on_as_time_does_has_not_jumped() {
        let watch = ClockWatch::default();
        assert_eq!(watch.note(at(0), at(0), says(0)), None);
        assert_eq!(watch.note(at(5000), at(5100), says(5050)), None);
        // The question took three seconds: the answer may be as old.
        assert_eq!(watch.note(at(10_000), at(13_000), says(10_050)), None);
        assert_eq!(
            watch.note(at(20_000), at(20_001), says(20_000)),
            None,
            "an old answer is no jump afterwards"
        );
    }

    #[test]
    fn a_jump_is_shown_for_an_hour() {
        let watch = ClockWatch::default();
        watch.note(at(0), at(0), says(0));
        let jump = watch.note(at(5000), at(5000), says(5000 - 3_600_000)).expect("it was set back");
        assert_eq!(jump.by_ms, -3_600_000);
        assert_eq!(watch.note(at(6000), at(6000), says(6000 - 3_600_000)), Some(jump));
        assert_eq!(watch.note(at(3_700_000), at(3_700_000), says(100_000)), None);
    }
}
