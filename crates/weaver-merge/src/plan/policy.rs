//! Limits and intervals, from the operator's configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// Limits and intervals of the merge queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Seconds between reconciliations when nothing happens; 30 by default.
    pub reconcile_every_s: u64,
    /// Seconds without progress after which a check has timed out, and its longest run; 3600 by default.
    pub check_timeout_s: u64,
    /// Queues that are processed at once; 16 by default.
    pub max_active_queues: usize,
    /// Queues that are reconciled at once by one process; 16 by default. A repository whose git blocks holds
    /// one of these permits.
    pub reconcile_concurrency: usize,
    /// Active checks over all queues, including those being cancelled; 4 by default.
    pub check_budget: usize,
    /// Backoff in seconds after a first transient error, doubled with each further one; 5 by default.
    pub backoff_first_s: u64,
    /// Longest backoff in seconds; 900 by default.
    pub backoff_max_s: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            reconcile_every_s: 30,
            check_timeout_s: 3600,
            max_active_queues: 16,
            reconcile_concurrency: 16,
            check_budget: 4,
            backoff_first_s: 5,
            backoff_max_s: 900,
        }
    }
}

impl Policy {
    /// `check_timeout_s` as a duration.
    pub fn check_timeout(&self) -> Duration {
        Duration::from_secs(self.check_timeout_s)
    }

    /// Time of the next try after `count` consecutive errors, from 1.
    pub fn retry_at(&self, count: u32, now: Timestamp) -> Timestamp {
        let factor = 1u64.checked_shl(count.saturating_sub(1)).unwrap_or(u64::MAX);
        let seconds = self.backoff_first_s.saturating_mul(factor).min(self.backoff_max_s);
        now.saturating_add(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_limit() {
        let (policy, now) = (Policy::default(), Timestamp::MIN);
        let waits: Vec<u64> = [1, 2, 3, 8, 9, 64, 65, u32::MAX]
            .map(|count| policy.retry_at(count, now).since(now).as_secs())
            .into();
        assert_eq!(waits, [5, 10, 20, 640, 900, 900, 900, 900]);
    }
}
