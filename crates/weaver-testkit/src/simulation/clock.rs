//! The world's clock: tokio's paused time, which advances to the next timer when no task is runnable.

use std::time::Duration;

use tokio::time::Instant;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};

/// Start time of every world: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Virtual time, for use inside a runtime with paused time.
#[derive(Debug, Clone, Copy)]
pub struct SimClock {
    started: Instant,
}

impl SimClock {
    /// A clock that shows [`START`] now.
    pub fn begin() -> Self {
        Self { started: Instant::now() }
    }

    /// Age of the world.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sleeps for a span of virtual time.
    pub async fn pause(&self, span: Duration) {
        self.until(self.elapsed().saturating_add(span)).await;
    }

    /// Sleeps until the world has this age.
    pub async fn until(&self, age: Duration) {
        tokio::time::sleep_until(self.started + age).await;
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        START.saturating_add(self.elapsed())
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.elapsed())
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        match self.started.checked_add(deadline.0) {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant)),
            None => Box::pin(std::future::pending()),
        }
    }
}
