//! How long to wait after a failure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::{FACTOR_DEFAULT, RetryPolicy as Core};

use super::names::to_ms;

/// When a failed task runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum RetryPolicy {
    /// Never: the first failure is the last.
    None {},
    /// After the same delay each time.
    Fixed {
        /// The delay.
        #[serde(deserialize_with = "weaver_core::whole::number")]
        delay_ms: u64,
    },
    /// Longer each time, by a factor.
    Exponential {
        /// The delay after the first failed attempt.
        #[serde(deserialize_with = "weaver_core::whole::number")]
        base_ms: u64,
        /// How many times as long each further delay is; 2 if not given.
        #[serde(default = "factor_default", deserialize_with = "weaver_core::whole::number")]
        #[cfg_attr(feature = "openapi", schema(default = factor_default))]
        factor: u32,
        /// The longest delay.
        #[serde(deserialize_with = "weaver_core::whole::number")]
        cap_ms: u64,
        /// Anywhere between three quarters of that and all of it, by the task's id.
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
