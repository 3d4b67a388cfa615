//! Retry policies: the backoff after a failed attempt. A policy is data in the record, so that every store
//! and every version of the code computes the same delay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem};
use crate::id::TaskId;
use crate::time::duration_ms;

/// The longest delay that a policy, a handler or a producer may request: 366 days.
pub const DELAY_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The factor of an exponential policy by default.
pub const FACTOR_DEFAULT: u32 = 2;
/// The largest factor of an exponential policy.
pub const FACTOR_MAX: u32 = 1000;
/// The smallest part of a delay that jitter leaves. Well above zero, because an immediate retry rarely helps.
pub const JITTER_LEAST: f64 = 0.75;

/// When a failed task is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RetryPolicy {
    /// Never: the first failure is the last.
    None,
    /// After the same delay each time.
    Fixed {
        /// The delay before each retry, at most [`DELAY_MAX`].
        #[serde(with = "duration_ms", rename = "delay_ms")]
        delay: Duration,
    },
    /// Exponential backoff: each delay is `factor` times the last, up to `cap`.
    Exponential {
        /// The delay after the first failed attempt.
        #[serde(with = "duration_ms", rename = "base_ms")]
        base: Duration,
        /// How many times as long each further delay is, from 1 to [`FACTOR_MAX`].
        #[serde(default = "factor_default")]
        factor: u32,
        /// The longest delay, before jitter.
        #[serde(with = "duration_ms", rename = "cap_ms")]
        cap: Duration,
        /// Jitter: the delay is between three quarters ([`JITTER_LEAST`]) and all of that, so that tasks that
        /// failed together are not retried together. Derived from the task's id: the same every time it is
        /// computed.
        jitter: bool,
    },
}

impl RetryPolicy {
    /// 15 s, 4 min, 64 min, then 8 h each time, with jitter: five attempts are spread over at least six
    /// hours, so that a task survives an outage or a bad deploy of some hours (ADR 0066).
    pub const DEFAULT: Self = Self::Exponential {
        base: Duration::from_secs(15),
        factor: 16,
        cap: Duration::from_secs(8 * 3600),
        jitter: true,
    };

    /// The delay after failure number `failures` (from 1), or `None` if there is no retry.
    pub fn delay(&self, id: TaskId, failures: u32) -> Option<Duration> {
        match *self {
            Self::None => None,
            Self::Fixed { delay } => Some(delay),
            Self::Exponential { base, factor, cap, jitter } => {
                let times = u64::from(factor).saturating_pow(failures.saturating_sub(1));
                let full = saturating_mul(base, times).min(cap);
                let part = JITTER_LEAST + (1.0 - JITTER_LEAST) * unit_interval(id, failures);
                Some(if jitter { full.mul_f64(part) } else { full })
            }
        }
    }

    /// Refuses delays above [`DELAY_MAX`], and factors outside 1 to [`FACTOR_MAX`].
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let longest = match *self {
            Self::None => return Ok(()),
            Self::Fixed { delay } => delay,
            Self::Exponential { base, factor, cap, .. } => {
                if !(1..=FACTOR_MAX).contains(&factor) {
                    let (value, max) = (factor.into(), FACTOR_MAX.into());
                    return Err(Invalid::new("retry.factor", Problem::OutOfRange { value, min: 1, max }));
                }
                base.max(cap)
            }
        };
        check_delay("retry", longest)
    }
}

fn factor_default() -> u32 {
    FACTOR_DEFAULT
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A user's own backoff: the delay after this many failures, the last of them with this error. `None` leaves
/// it to the task's policy. It only supplies a delay; `max_attempts` decides whether there is a retry.
pub type DelayFunction = dyn Fn(u32, &str) -> Option<Duration> + Send + Sync;

/// `Duration` multiplies by 32 bits only; a base of a millisecond needs more to reach a year.
fn saturating_mul(span: Duration, factor: u64) -> Duration {
    let nanos = span.as_nanos().saturating_mul(factor.into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Refuses delays above [`DELAY_MAX`].
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
    use crate::task::MAX_ATTEMPTS_DEFAULT;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    fn exponential(base: Duration, factor: u32, cap: Duration) -> RetryPolicy {
        RetryPolicy::Exponential { base, factor, cap, jitter: false }
    }

    #[test]
    fn an_exponential_policy_multiplies_up_to_its_cap() {
        let seconds = |policy: RetryPolicy| -> Vec<_> {
            (1..=8).map(|failures| policy.delay(TaskId(1), failures).unwrap().as_secs()).collect()
        };
        let doubling = exponential(SECOND, 2, 60 * SECOND);
        assert_eq!(seconds(doubling), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(doubling.delay(TaskId(1), u32::MAX), Some(60 * SECOND));
        assert_eq!(seconds(exponential(SECOND, 10, HOUR)), [1, 10, 100, 1000, 3600, 3600, 3600, 3600]);
        assert_eq!(seconds(exponential(7 * SECOND, 1, HOUR)), [7; 8]);
        let slow = exponential(SECOND / 1000, 2, DELAY_MAX);
        assert_eq!(slow.delay(TaskId(1), 60), Some(DELAY_MAX));
        assert_eq!(exponential(SECOND, FACTOR_MAX, DELAY_MAX).delay(TaskId(1), u32::MAX), Some(DELAY_MAX));
    }

    #[test]
    fn jitter_spreads_over_the_last_quarter_of_the_delay_and_is_the_same_every_time() {
        let delay = |id: u64| RetryPolicy::DEFAULT.delay(TaskId(id), 3).unwrap();
        let full = 15 * 16 * 16 * SECOND;
        let draws: Vec<_> = (0..1000).map(delay).collect();
        assert!(draws.iter().all(|delay| (full * 3 / 4..full).contains(delay)));
        let mean = draws.iter().sum::<Duration>() / 1000;
        assert!((full * 87 / 100..full * 88 / 100).contains(&mean), "{mean:?}");
        let (least, most) = (draws.iter().min().unwrap(), draws.iter().max().unwrap());
        assert!(*most - *least > full / 5, "from {least:?} to {most:?}");
        assert_eq!(delay(7), delay(7));
        assert_ne!(delay(7), delay(8));
    }

    #[test]
    fn five_attempts_are_spread_over_at_least_six_hours_for_every_id() {
        let spread = |part: f64| -> Duration {
            let RetryPolicy::Exponential { base, factor, cap, .. } = RetryPolicy::DEFAULT else {
                panic!("the default is exponential")
            };
            let full = exponential(base, factor, cap);
            (1..MAX_ATTEMPTS_DEFAULT).map(|n| full.delay(TaskId(1), n).unwrap().mul_f64(part)).sum()
        };
        // No id draws less than the least jitter leaves.
        assert!(spread(JITTER_LEAST) >= 6 * HOUR, "{:?}", spread(JITTER_LEAST));
        for id in (0..10_000).chain([u64::MAX, u64::MAX - 1, 1 << 63]) {
            let delays =
                (1..MAX_ATTEMPTS_DEFAULT).map(|n| RetryPolicy::DEFAULT.delay(TaskId(id), n).unwrap());
            let sum: Duration = delays.sum();
            assert!(sum >= 6 * HOUR && sum <= spread(1.0), "id {id}: {sum:?}");
        }
        let first = RetryPolicy::DEFAULT.delay(TaskId(1), 1).unwrap();
        assert!(first < 60 * SECOND, "the first retry comes soon: {first:?}");
    }

    #[test]
    fn a_fixed_policy_waits_the_same_each_time_and_none_never_retries() {
        assert_eq!(RetryPolicy::Fixed { delay: SECOND }.delay(TaskId(1), 4), Some(SECOND));
        assert_eq!(RetryPolicy::None.delay(TaskId(1), 1), None);
    }

    #[test]
    fn a_factor_is_from_one_to_a_thousand() {
        for (factor, is_valid) in [(0, false), (1, true), (FACTOR_MAX, true), (FACTOR_MAX + 1, false)] {
            let refusal = exponential(SECOND, factor, HOUR).validate();
            assert_eq!(refusal.is_ok(), is_valid, "{refusal:?}");
        }
    }

    #[test]
    fn a_policy_is_data_whose_factor_is_two_if_not_given() {
        let text = serde_json::to_string(&RetryPolicy::DEFAULT).unwrap();
        let written = r#"{"kind":"exponential","base_ms":15000,"factor":16,"cap_ms":28800000,"jitter":true}"#;
        assert_eq!(text, written);
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), RetryPolicy::DEFAULT);
        let short = r#"{"kind":"exponential","base_ms":1000,"cap_ms":60000,"jitter":false}"#;
        assert_eq!(serde_json::from_str::<RetryPolicy>(short).unwrap(), exponential(SECOND, 2, 60 * SECOND));
    }
}
