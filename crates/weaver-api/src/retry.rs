//! Retry policies: the backoff after a failed attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::{FACTOR_DEFAULT, RetryPolicy as Core};

use super::names::to_ms;

/// Backoff after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum RetryPolicy {
    /// No retries: the task is dead after its first failure.
    None {},
    /// The same delay each time.
    Fixed {
        /// The delay before every retry.
        #[serde(deserialize_with = "weaver_core::json_number::integer")]
        delay_ms: u64,
    },
    /// A delay that grows by a factor.
    Exponential {
        /// The delay before the first retry.
        #[serde(deserialize_with = "weaver_core::json_number::integer")]
        base_ms: u64,
        /// Each delay is this many times the previous one; default 2.
        #[serde(default = "factor_default", deserialize_with = "weaver_core::json_number::integer")]
        #[cfg_attr(feature = "openapi", schema(default = factor_default))]
        factor: u32,
        /// No delay is longer.
        #[serde(deserialize_with = "weaver_core::json_number::integer")]
        cap_ms: u64,
        /// Spreads each delay over 75 % to 100 % of it, by the task's id.
        jitter: bool,
    },
}

fn factor_default() -> u32 {
    FACTOR_DEFAULT
}

impl From<RetryPolicy> for Core {
    fn from(policy: RetryPolicy) -> Self {
        let ms = Duration::from_millis;
        match policy {
            RetryPolicy::None {} => Self::None,
            RetryPolicy::Fixed { delay_ms } => Self::Fixed { delay: ms(delay_ms) },
            RetryPolicy::Exponential { base_ms, factor, cap_ms, jitter } => {
                Self::Exponential { base: ms(base_ms), factor, cap: ms(cap_ms), jitter }
            }
        }
    }
}

impl From<Core> for RetryPolicy {
    fn from(policy: Core) -> Self {
        match policy {
            Core::None => Self::None {},
            Core::Fixed { delay } => Self::Fixed { delay_ms: to_ms(delay) },
            Core::Exponential { base, factor, cap, jitter } => {
                Self::Exponential { base_ms: to_ms(base), factor, cap_ms: to_ms(cap), jitter }
            }
        }
    }
}
