//! Whether maintenance (lease expiry, retention) succeeds.

use parking_lot::Mutex;
use weaver_core::error::Error;
use weaver_core::time::Timestamp;

/// Failed rounds in a row before maintenance counts as failing: a single lost connection does not.
const ROUNDS_MIN: u32 = 3;

/// The results of a worker's last rounds of maintenance, for the process's health check.
#[derive(Debug, Default)]
pub struct MaintenanceWatch {
    failing: Mutex<Option<MaintenanceFailing>>,
}

/// Maintenance keeps failing: leases of crashed workers do not expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceFailing {
    /// Time of the first failed round, by this process's clock.
    pub since: Timestamp,
    /// Failed rounds in a row, at least 3.
    pub rounds: u32,
    /// The error of the last one.
    pub error: String,
}

impl MaintenanceWatch {
    /// Records the result of a round.
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

    /// Since when it fails, and why; `None` below three failed rounds in a row.
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
        let error = Error::Unavailable { reason: "connection refused".to_owned() };
        for second in 1..=2 {
            watch.note(Timestamp::from_micros(second), Some(&error));
            assert_eq!(watch.failing(), None);
        }
        watch.note(Timestamp::from_micros(3), Some(&error));
        let failing = watch.failing().expect("three rounds have failed");
        assert_eq!((failing.since, failing.rounds), (Timestamp::from_micros(1), 3));
        assert!(failing.error.contains("connection refused"), "{failing:?}");
        watch.note(Timestamp::from_micros(4), None);
        assert_eq!(watch.failing(), None);
    }
}
