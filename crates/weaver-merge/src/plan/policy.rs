//! What the operator decided.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

/// Limits and times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How often a queue is looked at if nothing happens.
    pub reconcile_every_s: u64,
    /// How long nothing may be heard of a check before it counts as timed out; also the most one may take.
    pub check_timeout_s: u64,
    /// How many queues are processed at once.
    pub max_active_queues: usize,
    /// How many checks are under way at once, over all queues; those that are being cancelled count.
    pub check_budget: usize,
    /// How long to wait after a first error that should pass; doubled with each further one.
    pub backoff_first_s: u64,
    /// And at most.
    pub backoff_max_s: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            reconcile_every_s: 30,
            check_timeout_s: 3600,
            max_active_queues: 16,
            check_budget: 4,
            backoff_first_s: 5,
            backoff_max_s: 900,
        }
    }
}

impl Policy {
    /// The longest silence of a check.
    pub fn check_timeout(&self) -> Duration {
        Duration::from_secs(self.check_timeout_s)
    }

    /// When to try again after so many errors in a row.
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
    fn the_wait_after_errors_doubles_up_to_its_limit() {
        let (policy, now) = (Policy::default(), Timestamp::MIN);
        let waits: Vec<u64> = [1, 2, 3, 8, 9, 64, 65, u32::MAX]
            .map(|count| policy.retry_at(count, now).since(now).as_secs())
            .into();
        assert_eq!(waits, [5, 10, 20, 640, 900, 900, 900, 900]);
    }
}
