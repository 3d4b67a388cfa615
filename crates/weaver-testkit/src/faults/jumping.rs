//! A wall clock that jumps.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// Time between two jumps.
const SET_EVERY: Duration = Duration::from_secs(3);
const HOUR_US: i64 = 3_600_000_000;

/// Decorates a clock whose wall time jumps by up to three hours, forward or back, every three seconds, drawn
/// from a seed. Monotonic time is unchanged.
#[derive(Debug, Clone)]
pub struct JumpingClock {
    inner: Arc<dyn Clock>,
    seed: u64,
}

impl JumpingClock {
    /// Equal to `inner` until the first jump.
    pub fn new(inner: Arc<dyn Clock>, seed: u64) -> Self {
        Self { inner, seed }
    }

    fn ahead_us(&self) -> i64 {
        let turn = u64::try_from(self.inner.monotonic().0.as_millis() / SET_EVERY.as_millis()).unwrap_or(0);
        if turn == 0 {
            return 0;
        }
        // Any mixing will do, as long as it is reproducible.
        let mixed =
            (self.seed ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (i64::try_from((mixed >> 32) % 7).unwrap_or(0) - 3) * HOUR_US
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.inner.now().as_micros().saturating_add(self.ahead_us()))
    }

    fn monotonic(&self) -> Monotonic {
        self.inner.monotonic()
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.inner.sleep_until(deadline)
    }
}
