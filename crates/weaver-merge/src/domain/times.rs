//! How long things took: counts per bucket for ever, and the last of them exactly.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets, in seconds: from a second to three days.
pub const BOUNDS_S: [u64; 16] =
    [1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400, 259_200];
/// How many are kept exactly, for percentiles. They are part of the queue's document, which has a limit.
const LAST_MAX: usize = 100;

/// Durations of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// All of them together.
    pub sum_ms: u64,
    /// How many fell into each bucket and into none before it; those beyond the last are in `count` only.
    pub buckets: [u64; BOUNDS_S.len()],
    /// The last ones, the newest last.
    pub last_ms: Vec<u64>,
}

impl Times {
    /// Adds one.
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

    /// The smallest of the last ones that this share of them does not exceed.
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
    fn percentiles_are_those_of_the_last_ones_and_buckets_count_them_all() {
        let mut times = Times::default();
        assert_eq!(times.percentile_ms(50), None);
        for seconds in 1..=LAST_MAX as u64 + 20 {
            times.add(Duration::from_secs(seconds));
        }
        assert_eq!((times.percentile_ms(50), times.percentile_ms(95)), (Some(70_000), Some(115_000)));
        assert_eq!((times.count, times.last_ms.len()), (120, LAST_MAX));
        assert_eq!(times.buckets[..6], [1, 4, 10, 15, 30, 60]);
        times.add(Duration::from_secs(1_000_000));
        assert_eq!(times.buckets.iter().sum::<u64>(), 120, "what exceeds them all is in none");
    }
}
