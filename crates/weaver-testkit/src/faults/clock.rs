//! A clock with skew and drift.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// Decorates a clock with a fixed offset and a drift.
#[derive(Debug, Clone)]
pub struct SkewedClock {
    inner: Arc<dyn Clock>,
    offset_us: i64,
    drift_ppm: i32,
}

impl SkewedClock {
    /// `inner` plus `offset_us` microseconds, which may be negative.
    pub fn new(inner: Arc<dyn Clock>, offset_us: i64) -> Self {
        Self { inner, offset_us, drift_ppm: 0 }
    }

    /// Drifts by this many microseconds per second of the inner clock; negative values lose time.
    ///
    /// # Panics
    /// If the clock would stand still or go backwards.
    #[must_use]
    pub fn drifting(self, drift_ppm: i32) -> Self {
        assert!(drift_ppm > -1_000_000, "a clock goes forward");
        Self { drift_ppm, ..self }
    }

    fn measured(&self, span: Duration) -> Duration {
        scale(span, self.rate(), 1_000_000)
    }

    fn rate(&self) -> u128 {
        u128::try_from(1_000_000 + i64::from(self.drift_ppm)).unwrap_or(1)
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let real = self.inner.monotonic().0;
        let gained = micros(self.measured(real)) - micros(real);
        let skewed = i128::from(self.inner.now().as_micros()) + i128::from(self.offset_us) + gained;
        Timestamp::from_micros(i64::try_from(skewed).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.measured(self.inner.monotonic().0))
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        // Rounded up: a sleeper must not wake before its own deadline.
        let real = scale(deadline.0, 1_000_000, self.rate()).saturating_add(Duration::from_nanos(2));
        let real = if self.drift_ppm == 0 { deadline.0 } else { real };
        self.inner.sleep_until(Monotonic(real))
    }
}

fn micros(span: Duration) -> i128 {
    i128::try_from(span.as_micros()).unwrap_or(i128::MAX)
}

fn scale(span: Duration, times: u128, per: u128) -> Duration {
    let nanos = span.as_nanos().saturating_mul(times) / per;
    let whole = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(whole, u32::try_from(nanos % 1_000_000_000).unwrap_or(0))
}
