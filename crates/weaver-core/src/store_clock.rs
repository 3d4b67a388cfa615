//! The time of a store without a server: it advances with the machine's boot-time clock, whatever the wall
//! clock does (ADR-0043).
//!
//! ```text
//! durations  leases, delays, backoff, holds, retention   steady: the store's own time, which never jumps
//! instants   run_at, expires_at                          wall: the wall clock, jumps included
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::task::{ReadyBy, TaskRecord};
use crate::time::{Monotonic, Timestamp};

/// A smaller difference between the two clocks is not a jump: they are not read at the same moment.
const TOLERANCE_US: i64 = 1_000_000;
/// If reading both clocks took longer, their difference means nothing and both are read again.
const READ_WITHIN: Duration = Duration::from_millis(100);

/// The current time of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreNow {
    /// The store's own time: timestamps are taken from it, and leases and delays end by it. Never goes back.
    pub steady: Timestamp,
    /// The wall clock: `run_at` and `expires_at` are compared with it. May jump.
    pub wall: Timestamp,
}

impl StoreNow {
    /// The same for a task that the store has found due: it stays due if the wall clock is set back.
    #[must_use]
    pub fn once_due(self, record: &TaskRecord) -> Self {
        match record.ready_by {
            ReadyBy::Span => self,
            ReadyBy::Instant => Self { wall: self.wall.max(record.ready_at), ..self },
        }
    }
}

/// For a store with one clock for both.
impl From<Timestamp> for StoreNow {
    fn from(now: Timestamp) -> Self {
        Self { steady: now, wall: now }
    }
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// Microseconds; negative: it was set back.
    pub by_us: i64,
}

impl fmt::Display for ClockJump {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.by_us < 0 { "back" } else { "forward" };
        let seconds = self.by_us.unsigned_abs() / 100_000;
        write!(out, "the wall clock was set {direction} by {}.{} s", seconds / 10, seconds % 10)
    }
}

/// The time of a store while it is open.
#[derive(Debug)]
pub struct StoreClock {
    clock: Arc<dyn Clock>,
    opened_at: Monotonic,
    began_at: Timestamp,
    /// How far the wall clock was ahead of the store's own time when last read. Atomic: every call of a store
    /// reads it.
    ahead_us: AtomicI64,
}

impl StoreClock {
    /// The time of a store whose last timestamp is `latest` ([`Timestamp::MIN`]: it is new). The store's own
    /// time begins at the wall clock, so that a forward difference counts as downtime. If the wall clock is
    /// before the last timestamp it continues from there, as if the clock had been set back while it was
    /// open.
    pub fn open(clock: Arc<dyn Clock>, latest: Timestamp) -> Self {
        let (opened_at, wall) = read(&*clock);
        let began_at = wall.max(latest);
        let ahead_us = AtomicI64::new(wall.as_micros() - began_at.as_micros());
        let opened = Self { clock, opened_at, began_at, ahead_us };
        if opened.ahead_us.load(Ordering::Relaxed) < -TOLERANCE_US {
            let behind = ClockJump { by_us: opened.ahead_us.load(Ordering::Relaxed) };
            tracing::warn!(
                jump = %behind,
                "wall clock is behind the store's last timestamp; store time continues from that timestamp"
            );
        }
        opened
    }

    /// The current time. A jump of the wall clock is logged by the call that sees it first.
    pub fn now(&self) -> StoreNow {
        let (elapsed, wall) = read(&*self.clock);
        let steady = self.began_at.saturating_add(elapsed.0.saturating_sub(self.opened_at.0));
        if let Some(jump) = self.note(wall.as_micros() - steady.as_micros()) {
            tracing::warn!(
                %jump,
                "wall clock jumped; leases, delays and retries are unaffected, run_at and expires_at are not"
            );
        }
        StoreNow { steady, wall }
    }

    /// The underlying clock, for sleeping.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn note(&self, ahead_us: i64) -> Option<ClockJump> {
        let known = self.ahead_us.load(Ordering::Relaxed);
        let by_us = ahead_us - known;
        if by_us.abs() <= TOLERANCE_US {
            return None;
        }
        // Of several calls that see it at once, one logs it.
        let told = self.ahead_us.compare_exchange(known, ahead_us, Ordering::Relaxed, Ordering::Relaxed);
        told.ok().map(|_| ClockJump { by_us })
    }
}

/// Both clocks, read close to each other: a process suspended between the reads would see a false jump.
fn read(clock: &dyn Clock) -> (Monotonic, Timestamp) {
    const READS_MAX: usize = 3;
    let mut before = clock.monotonic();
    let mut wall = clock.now();
    for _ in 1..READS_MAX {
        let after = clock.monotonic();
        if after.0.saturating_sub(before.0) <= READ_WITHIN {
            break;
        }
        (before, wall) = (after, clock.now());
    }
    (before, wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);

    fn store() -> (ManualClock, StoreClock) {
        let clock = ManualClock::default();
        (clock.clone(), StoreClock::open(Arc::new(clock), Timestamp::MIN))
    }

    #[test]
    fn the_stores_own_time_advances_whatever_the_wall_clock_does() {
        let (clock, store) = store();
        let began = store.now();
        assert_eq!(began.steady, began.wall);
        clock.set_back(HOUR);
        clock.advance(Duration::from_secs(1));
        let now = store.now();
        assert_eq!(now.steady.since(began.steady), Duration::from_secs(1));
        assert_eq!(began.wall.since(now.wall), HOUR - Duration::from_secs(1));
        clock.set_forward(2 * HOUR);
        let now = store.now();
        assert_eq!(now.steady.since(began.steady), Duration::from_secs(1));
        assert_eq!(now.wall.since(began.wall), HOUR + Duration::from_secs(1));
    }

    #[test]
    fn a_clock_jump_is_reported_once_and_a_small_difference_is_none() {
        let (_, store) = store();
        assert_eq!(store.note(900_000), None);
        assert_eq!(store.note(-3_600_000_000), Some(ClockJump { by_us: -3_600_000_000 }));
        assert_eq!(store.note(-3_600_000_000), None);
        assert_eq!(store.note(0).expect("a jump").to_string(), "the wall clock was set forward by 3600.0 s");
    }

    #[test]
    fn a_store_opened_before_its_last_timestamp_continues_from_it() {
        let clock = ManualClock::default();
        let latest = clock.now().saturating_add(HOUR);
        let store = StoreClock::open(Arc::new(clock.clone()), latest);
        clock.advance(Duration::from_secs(1));
        assert_eq!(store.now().steady, latest.saturating_add(Duration::from_secs(1)));
    }

    #[test]
    fn time_between_the_last_timestamp_and_the_opening_counts_as_downtime() {
        let clock = ManualClock::default();
        let latest = clock.now().saturating_sub(HOUR);
        let store = StoreClock::open(Arc::new(clock.clone()), latest);
        assert_eq!(store.now().steady, clock.now());
    }
}
