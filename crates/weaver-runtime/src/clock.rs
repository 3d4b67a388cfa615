//! The system clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// The machine's wall clock, its boot-time clock, and tokio's timer. Sleeping needs a tokio runtime.
///
/// The boot-time clock (Linux; elsewhere the monotonic one) includes the time that the machine is suspended,
/// as leases do.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Duration,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { started: since_boot() }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
fn since_boot() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(since_boot().saturating_sub(self.started))
    }

    #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        let clock = *self;
        Box::pin(async move {
            // The timer does not count suspended time, and is coarser than this clock: the clock is read
            // again when it fires.
            loop {
                let left = deadline.0.saturating_sub(clock.monotonic().0);
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_lasts_until_its_deadline() {
        let clock = SystemClock::new();
        let deadline = clock.monotonic().saturating_add(Duration::from_millis(2));
        clock.sleep_until(deadline).await;
        assert!(clock.monotonic() >= deadline);
        assert!(clock.now() > Timestamp::from_micros(1_700_000_000_000_000), "after 2023");
    }

    #[tokio::test]
    async fn a_deadline_beyond_time_never_comes() {
        let clock = SystemClock::new();
        let mut never = clock.sleep_until(Monotonic(Duration::MAX));
        let soon = clock.sleep_until(clock.monotonic());
        tokio::select! {
            biased;
            () = &mut never => panic!("the end of time has come"),
            () = soon => {}
        }
    }
}
