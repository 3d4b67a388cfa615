//! A wall clock that is set again and again.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// How long the clock goes on before it is set again.
const SET_EVERY: Duration = Duration::from_secs(3);
const HOUR_US: i64 = 3_600_000_000;

/// Another clock, set by up to three hours forward or back every three seconds, as a seed says. Its monotonic
/// time is the other's.
#[derive(Debug, Clone)]
pub struct JumpingClock {
    inner: Arc<dyn Clock>,
    seed: u64,
}

impl JumpingClock {
    /// Shows what `inner` shows until it is first set.
    pub fn new(inner: Arc<dyn Clock>, seed: u64) -> Self {
        Self { inner, seed }
    }

    /// How far it is set.
    fn ahead_us(&self) -> i64 {
        let turn = u64::try_from(self.inner.monotonic().0.as_millis() / SET_EVERY.as_millis()).unwrap_or(0);
        if turn == 0 {
            return 0;
        }
        // Any mixing does: what matters is that a seed always gives the same.
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
