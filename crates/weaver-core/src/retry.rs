//! How long to wait after a failure. A policy is data in the record, so that every store and every version of the
//! code computes the same delay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem};
use crate::id::TaskId;
use crate::time::duration_ms;

/// The longest delay a policy, a handler or a producer may ask for.
pub const DELAY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// When a failed task runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RetryPolicy {
    /// Never: the first failure is the last.
    None,
    /// After the same delay each time.
    Fixed {
        /// The delay.
        #[serde(with = "duration_ms", rename = "delay_ms")]
        delay: Duration,
    },
    /// Twice as long each time.
    Exponential {
        /// Before the second start.
        #[serde(with = "duration_ms", rename = "base_ms")]
        base: Duration,
        /// At most.
        #[serde(with = "duration_ms", rename = "cap_ms")]
        cap: Duration,
        /// Anywhere between zero and that (full jitter), so that tasks that failed together do not come back
        /// together. Drawn from the task's id: the same every time it is computed.
        jitter: bool,
    },
}

impl RetryPolicy {
    /// 1 s · 2ⁿ⁻¹ capped at 1 h, full jitter.
    pub const DEFAULT: Self =
        Self::Exponential { base: Duration::from_secs(1), cap: Duration::from_secs(3600), jitter: true };

    /// The delay after failure number `failures` (from 1), or `None` if there is no other start.
    pub fn delay(&self, id: TaskId, failures: u32) -> Option<Duration> {
        match *self {
            Self::None => None,
            Self::Fixed { delay } => Some(delay),
            Self::Exponential { base, cap, jitter } => {
                let doublings = failures.saturating_sub(1).min(62);
                let full = saturating_mul(base, 1 << doublings).min(cap);
                Some(if jitter { full.mul_f64(unit_interval(id, failures)) } else { full })
            }
        }
    }

    /// Refuses delays beyond [`DELAY_MAX`].
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let longest = match *self {
            Self::None => return Ok(()),
            Self::Fixed { delay } => delay,
            Self::Exponential { base, cap, .. } => base.max(cap),
        };
        check_delay("retry", longest)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A user's own policy: the delay after this many failures, the last of them with this error. `None` leaves it to the
/// policy in the record. It only supplies a delay; whether there is another start is decided by the record's budget.
pub type DelayFunction = dyn Fn(u32, &str) -> Option<Duration> + Send + Sync;

/// `Duration` multiplies by 32 bits only; a base of a millisecond needs more to reach a year.
fn saturating_mul(span: Duration, factor: u64) -> Duration {
    let nanos = span.as_nanos().saturating_mul(factor.into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Refuses delays beyond [`DELAY_MAX`].
pub(crate) fn check_delay(field: &'static str, value: Duration) -> Result<(), Invalid> {
    if value > DELAY_MAX {
        let problem = Problem::SpanOutOfRange { value, min: Duration::ZERO, max: DELAY_MAX };
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

/// A number in [0, 1) that depends on nothing but its arguments: SplitMix64's finaliser over both.
fn unit_interval(id: TaskId, failures: u32) -> f64 {
    let mut bits = id.0 ^ u64::from(failures).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_exponential_policy_doubles_up_to_its_cap() {
        let policy = RetryPolicy::Exponential { base: SECOND, cap: 60 * SECOND, jitter: false };
        let delays: Vec<_> =
            (1..=8).map(|failures| policy.delay(TaskId(1), failures).unwrap().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.delay(TaskId(1), u32::MAX), Some(60 * SECOND));
        let slow = RetryPolicy::Exponential { base: SECOND / 1000, cap: DELAY_MAX, jitter: false };
        assert_eq!(slow.delay(TaskId(1), 60), Some(DELAY_MAX));
    }

    #[test]
    fn jitter_spreads_over_the_whole_delay_and_is_the_same_every_time() {
        let draws: Vec<_> = (0..1000).map(|id| RetryPolicy::DEFAULT.delay(TaskId(id), 3).unwrap()).collect();
        assert!(draws.iter().all(|delay| *delay < 4 * SECOND));
        let mean = draws.iter().sum::<Duration>() / 1000;
        assert!((SECOND * 19 / 10..SECOND * 21 / 10).contains(&mean), "{mean:?}");
        assert_eq!(RetryPolicy::DEFAULT.delay(TaskId(7), 3), RetryPolicy::DEFAULT.delay(TaskId(7), 3));
        assert_ne!(RetryPolicy::DEFAULT.delay(TaskId(7), 3), RetryPolicy::DEFAULT.delay(TaskId(8), 3));
    }

    #[test]
    fn a_fixed_policy_waits_the_same_each_time_and_none_never_retries() {
        assert_eq!(RetryPolicy::Fixed { delay: SECOND }.delay(TaskId(1), 4), Some(SECOND));
        assert_eq!(RetryPolicy::None.delay(TaskId(1), 1), None);
    }

    #[test]
    fn a_policy_is_data() {
        let text = serde_json::to_string(&RetryPolicy::DEFAULT).unwrap();
        assert_eq!(text, r#"{"kind":"exponential","base_ms":1000,"cap_ms":3600000,"jitter":true}"#);
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), RetryPolicy::DEFAULT);
    }
}
