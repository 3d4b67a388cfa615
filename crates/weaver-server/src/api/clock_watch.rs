//! Watches the store's clock for jumps: PostgreSQL's, or with DynamoDB this machine's.
//!
//! When the clock is set, leases and delays end too early or too late, so a jump is logged and shown by
//! `/readyz`. (The memory and embedded stores have a clock of their own, which does not jump: ADR 0043.)

use std::time::Duration;

use parking_lot::Mutex;
use weaver_api::ClockJumped;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::name::Namespace;
use weaver_core::ports::{Scope, Store};
use weaver_core::time::{Monotonic, Timestamp};

/// Differences up to this, beyond the round trip, are ignored.
const TOLERANCE: Duration = Duration::from_secs(1);
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How long `/readyz` shows a jump.
const SHOWN_FOR: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The last reading of the store's clock, and its time on ours.
    last: Option<(Monotonic, Timestamp)>,
    jump: Option<(Monotonic, ClockJumped)>,
}

impl ClockWatch {
    /// Reads the store's clock; returns the last jump if it is within [`SHOWN_FOR`].
    pub(crate) async fn check(&self, store: &dyn Store, clock: &dyn Clock) -> Result<Option<ClockJumped>> {
        let sent_at = clock.monotonic();
        let store_now = store.counts(Scope::Namespace(Namespace::default())).await?.as_of;
        Ok(self.note(sent_at, clock.monotonic(), store_now))
    }

    /// Checks until it is dropped.
    pub(crate) async fn run(&self, store: &dyn Store, clock: &dyn Clock) {
        loop {
            if let Err(error) = self.check(store, clock).await {
                tracing::debug!(%error, "reading the store's clock failed");
            }
            clock.sleep_until(clock.monotonic().saturating_add(CHECK_EVERY)).await;
        }
    }

    /// Compares a reading of the store's clock with the last one.
    fn note(&self, sent_at: Monotonic, received_at: Monotonic, store_now: Timestamp) -> Option<ClockJumped> {
        let mut known = self.known.lock();
        if let Some((last_at, said)) = known.last {
            let passed =
                i128::try_from(received_at.0.saturating_sub(last_at.0).as_micros()).unwrap_or(i128::MAX);
            let by_us = i128::from(store_now.as_micros()) - i128::from(said.as_micros()) - passed;
            let asking = received_at.0.saturating_sub(sent_at.0).saturating_add(TOLERANCE);
            if by_us.unsigned_abs() > asking.as_micros() {
                let by_ms = i64::try_from(by_us / 1000).unwrap_or(i64::MAX);
                tracing::warn!(
                    by_ms,
                    "the store's clock jumped; leases and delays in progress end early or late"
                );
                known.jump = Some((received_at, ClockJumped { by_ms, seen_at: store_now }));
            }
        }
        // A slow reading is inaccurate: compared with it, the next one would look like a jump.
        if known.last.is_none() || received_at.0.saturating_sub(sent_at.0) <= TOLERANCE / 2 {
            known.last = Some((received_at, store_now));
        }
        let is_recent = |at: Monotonic| received_at.0.saturating_sub(at.0) <= SHOWN_FOR;
        known.jump.as_ref().filter(|(at, _)| is_recent(*at)).map(|(_, jump)| *jump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic(Duration::from_millis(millis))
    }

    fn store_now(millis: i64) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000 + millis * 1000)
    }

    #[test]
    fn a_steady_clock_has_not_jumped_also_after_a_slow_reading() {
        let watch = ClockWatch::default();
        assert_eq!(watch.note(at(0), at(0), store_now(0)), None);
        assert_eq!(watch.note(at(5000), at(5100), store_now(5050)), None);
        // The read took three seconds: the reading may be as old.
        assert_eq!(watch.note(at(10_000), at(13_000), store_now(10_050)), None);
        assert_eq!(
            watch.note(at(20_000), at(20_001), store_now(20_000)),
            None,
            "a slow reading does not look like a jump afterwards"
        );
    }

    #[test]
    fn a_jump_is_shown_for_an_hour() {
        let watch = ClockWatch::default();
        watch.note(at(0), at(0), store_now(0));
        let jump = watch.note(at(5000), at(5000), store_now(5000 - 3_600_000)).expect("it was set back");
        assert_eq!(jump.by_ms, -3_600_000);
        assert_eq!(watch.note(at(6000), at(6000), store_now(6000 - 3_600_000)), Some(jump));
        assert_eq!(watch.note(at(3_700_000), at(3_700_000), store_now(100_000)), None);
    }
}
