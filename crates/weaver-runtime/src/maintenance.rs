//! Whether maintenance (lease expiry, retention) gets done.

use parking_lot::Mutex;
use weaver_core::error::Error;
use weaver_core::time::Timestamp;

/// So many rounds in a row have to fail before maintenance counts as failing: one lost connection is none.
const ROUNDS_MIN: u32 = 3;

/// What came of the last rounds of maintenance of a worker. Shared with what answers for the process's
/// health.
#[derive(Debug, Default)]
pub struct MaintenanceWatch {
    failing: Mutex<Option<MaintenanceFailing>>,
}

/// Maintenance keeps failing: leases of lost workers do not expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceFailing {
    /// When the first of the failed rounds was, by this process's clock.
    pub since: Timestamp,
    /// So many rounds in a row have failed.
    pub rounds: u32,
    /// The error of the last one.
    pub error: String,
}

impl MaintenanceWatch {
    /// Takes note of a round.
    pub fn note(&self, at: Timestamp, failure: Option<&Error>) {
        let mut failing = self.failing.lock();
        *failing = failure.map(|error| {
            let before = failing.take();
            MaintenanceFailing {
                since: before.as_ref().map_or(at, |before| before.since),
                rounds: before.map_or(0, |before| before.rounds).saturating_add(1),
                error: error.to_string(),
            }
        });
    }

    /// Since when it fails, and why; nothing after fewer than three failed rounds in a row.
    pub fn failing(&self) -> Option<MaintenanceFailing> {
        self.failing.lock().clone().filter(|failing| failing.rounds >= ROUNDS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_is_failing_from_the_third_failed_round_until_one_succeeds() {
        let watch = MaintenanceWatch::default();
        let error = Error::Unavailable { reason: "gone".to_owned() };
        for second in 1..=2 {
            watch.note(Timestamp::from_micros(second), Some(&error));
            assert_eq!(watch.failing(), None);
        }
        watch.note(Timestamp::from_micros(3), Some(&error));
        let failing = watch.failing().expect("three rounds have failed");
        assert_eq!((failing.since, failing.rounds), (Timestamp::from_micros(1), 3));
        assert!(failing.error.contains("gone"), "{failing:?}");
        watch.note(Timestamp::from_micros(4), None);
        assert_eq!(watch.failing(), None);
    }
}
