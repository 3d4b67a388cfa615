//! How long to wait after a failure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::retry::RetryPolicy as Core;

use super::names::to_ms;

/// When a failed task runs again; `exponential` from 1 s to 1 h with jitter if not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum RetryPolicy {
    /// Never: the first failure is the last.
    None {},
    /// After the same delay each time.
    Fixed {
        /// The delay.
        #[cfg_attr(feature = "openapi", schema(maximum = 31_622_400_000_i64))]
        #[serde(deserialize_with = "super::whole::number")]
        delay_ms: u64,
    },
    /// Twice as long each time.
    Exponential {
        /// Before the second start.
        #[cfg_attr(feature = "openapi", schema(maximum = 31_622_400_000_i64))]
        #[serde(deserialize_with = "super::whole::number")]
        base_ms: u64,
        /// At most.
        #[cfg_attr(feature = "openapi", schema(maximum = 31_622_400_000_i64))]
        #[serde(deserialize_with = "super::whole::number")]
        cap_ms: u64,
        /// Anywhere between zero and that.
        jitter: bool,
    },
}

impl From<RetryPolicy> for Core {
    fn from(policy: RetryPolicy) -> Self {
        let ms = Duration::from_millis;
        match policy {
            RetryPolicy::None {} => Self::None,
            RetryPolicy::Fixed { delay_ms } => Self::Fixed { delay: ms(delay_ms) },
            RetryPolicy::Exponential { base_ms, cap_ms, jitter } => {
                Self::Exponential { base: ms(base_ms), cap: ms(cap_ms), jitter }
            }
        }
    }
}

impl From<Core> for RetryPolicy {
    fn from(policy: Core) -> Self {
        match policy {
            Core::None => Self::None {},
            Core::Fixed { delay } => Self::Fixed { delay_ms: to_ms(delay) },
            Core::Exponential { base, cap, jitter } => {
                Self::Exponential { base_ms: to_ms(base), cap_ms: to_ms(cap), jitter }
            }
        }
    }
}
