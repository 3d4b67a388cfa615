//! Durations: a histogram since the queue was created, and the most recent values for percentiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets, in seconds: one second to three days.
pub const BOUNDS_S: [u64; 16] =
    [1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400, 259_200];
/// Values kept for percentiles. They are part of the queue's document, whose size is limited.
const LAST_MAX: usize = 100;

/// A histogram of durations, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DurationHistogram {
    /// Number of all observations.
    pub count: u64,
    /// Sum of all observations; saturates.
    pub sum_ms: u64,
    /// Observations per bucket, not cumulative; those beyond the last bound are in `count` only.
    pub buckets: [u64; BOUNDS_S.len()],
    /// The last 100 observations, newest last.
    pub last_ms: Vec<u64>,
}

impl DurationHistogram {
    /// Adds one observation to the histogram.
    pub fn add(&mut self, took: Duration) {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        if let Some(bucket) = BOUNDS_S.iter().position(|bound| ms <= bound * 1000) {
            self.buckets[bucket] += 1;
        }
        self.last_ms.push(ms);
        let surplus = self.last_ms.len().saturating_sub(LAST_MAX);
        self.last_ms.drain(..surplus);
    }

    /// Percentile of the last 100 observations; `None` if there are none.
    pub fn percentile_ms(&self, percent: usize) -> Option<u64> {
        let mut sorted = self.last_ms.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_cover_the_last_100_and_buckets_count_all() {
        let mut histogram = DurationHistogram::default();
        assert_eq!(histogram.percentile_ms(50), None);
        for seconds in 1..=LAST_MAX as u64 + 20 {
            histogram.add(Duration::from_secs(seconds));
        }
        assert_eq!((histogram.percentile_ms(50), histogram.percentile_ms(95)), (Some(70_000), Some(115_000)));
        assert_eq!((histogram.count, histogram.last_ms.len()), (120, LAST_MAX));
        assert_eq!(histogram.buckets[..6], [1, 4, 10, 15, 30, 60]);
        histogram.add(Duration::from_secs(1_000_000));
        assert_eq!(
            histogram.buckets.iter().sum::<u64>(),
            120,
            "a value beyond the last bound is in no bucket"
        );
    }
}
