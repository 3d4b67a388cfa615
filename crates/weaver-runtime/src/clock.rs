//! The real clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// The machine's wall clock, its monotonic clock, and tokio's timer. Sleeping needs a tokio runtime.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
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
        Monotonic(self.started.elapsed())
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        // A deadline beyond what the timer can hold means "never".
        match self.started.checked_add(deadline.0) {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant.into())),
            None => Box::pin(std::future::pending()),
        }
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
