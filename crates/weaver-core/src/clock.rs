//! The source of time. Core never asks the operating system: a [`Clock`] is passed in, so that tests and
//! simulations control time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::time::{Monotonic, Timestamp};

/// A sleep that borrows nothing from its clock.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time.
///
/// # Contract
/// - [`monotonic`](Clock::monotonic) never goes back and does not follow changes of the wall clock. Where the
///   system can, it counts the time the machine was suspended: the leases of a suspended worker expire.
/// - [`sleep_until`](Clock::sleep_until) resolves once `monotonic() >= deadline`, at once if it already is.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The wall clock. It may jump, also backwards.
    fn now(&self) -> Timestamp;
    /// Time since this clock started.
    fn monotonic(&self) -> Monotonic;
    /// Sleeps until a point in monotonic time.
    fn sleep_until(&self, deadline: Monotonic) -> Sleep;
}

/// A clock for tests, which stands still until [`advance`](ManualClock::advance) moves it.
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    start: Timestamp,
    elapsed: Mutex<Duration>,
    /// How far the wall clock was set forward, in microseconds.
    set_us: AtomicI64,
    moved: Notify,
}

impl ManualClock {
    /// A clock that shows `start` until it is moved.
    pub fn new(start: Timestamp) -> Self {
        Self {
            shared: Arc::new(Shared {
                start,
                elapsed: Mutex::default(),
                set_us: AtomicI64::new(0),
                moved: Notify::new(),
            }),
        }
    }

    /// Moves time forward and wakes every sleeper whose deadline has passed.
    pub fn advance(&self, by: Duration) {
        {
            let mut elapsed = self.shared.elapsed.lock();
            *elapsed = elapsed.saturating_add(by);
        }
        self.shared.moved.notify_waiters();
    }

    /// Sets the wall clock back. Monotonic time does not change.
    pub fn set_back(&self, by: Duration) {
        self.shared.set_us.fetch_sub(micros(by), Ordering::Relaxed);
    }

    /// Sets the wall clock forward. Monotonic time does not change.
    pub fn set_forward(&self, by: Duration) {
        self.shared.set_us.fetch_add(micros(by), Ordering::Relaxed);
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl Default for ManualClock {
    /// Starts at 2026-01-01T00:00:00Z: any fixed instant does, and this one is easy to read in failures.
    fn default() -> Self {
        Self::new(Timestamp::from_micros(1_767_225_600_000_000))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ManualClock({})", self.now())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let unset = self.shared.start.saturating_add(*self.shared.elapsed.lock());
        let set_us = self.shared.set_us.load(Ordering::Relaxed);
        Timestamp::from_micros(unset.as_micros().saturating_add(set_us))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(*self.shared.elapsed.lock())
    }

    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            loop {
                let moved = shared.moved.notified();
                tokio::pin!(moved);
                // Registered before time is read: a move in between is seen.
                moved.as_mut().enable();
                if Monotonic(*shared.elapsed.lock()) >= deadline {
                    return;
                }
                moved.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_time_is_moved_past_its_deadline_and_not_before() {
        let clock = ManualClock::default();
        let deadline = clock.monotonic().saturating_add(Duration::from_secs(10));
        let mut sleep = clock.sleep_until(deadline);
        let mut waiting = std::pin::pin!(&mut sleep);
        assert!(futures_poll(&mut waiting).await.is_none());
        clock.advance(Duration::from_secs(9));
        assert!(futures_poll(&mut waiting).await.is_none());
        clock.advance(Duration::from_secs(1));
        assert!(futures_poll(&mut waiting).await.is_some());
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(value) => Some(value),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
