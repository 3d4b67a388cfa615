//! A pending wait that the test polls itself, so that its progress is deterministic.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weaver_core::event::ChangeCursor;
use weaver_core::lease::Lease;
use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};

use super::steps::{queue_names, task_type};
use weaver_testkit::harness::{Boxed, Harness, namespace};

/// Polls before a wait counts as waiting: more than any store needs to find existing work.
const POLLS: usize = 100;

/// A caller of `Queue::wait`.
pub(super) struct Waiter(Boxed<Wake>);

impl Waiter {
    /// Starts a wait with this interest and timeout.
    pub(super) fn new(harness: &Harness, interest: Interest, timeout: Duration) -> Self {
        let store = Arc::clone(&harness.store);
        Self(Box::pin(async move { store.wait(interest, timeout).await.expect("the wait is valid") }))
    }

    /// Waits an hour for anything to lease from queue `default`.
    pub(super) fn for_work(harness: &Harness) -> Self {
        Self::new(harness, work(Namespace::default().as_str(), &["default"], None), Duration::from_secs(3600))
    }

    /// Waits an hour for anything loss-tolerant to lease from queue `default`.
    pub(super) fn for_sturdy_work(harness: &Harness) -> Self {
        let (namespace, queues) = (Namespace::default(), queue_names(&["default"]));
        let interest = Interest::Work { namespace, queues, types: None, fragile: false };
        Self::new(harness, interest, Duration::from_secs(3600))
    }

    /// Waits an hour for changes.
    pub(super) fn for_changes(harness: &Harness, after: ChangeCursor) -> Self {
        Self::new(harness, Interest::Changes { after }, Duration::from_secs(3600))
    }

    /// Waits an hour for the cancellation of one of these.
    pub(super) fn for_cancelled(harness: &Harness, leases: &[Lease]) -> Self {
        Self::new(harness, Interest::Cancelled { leases: leases.to_vec() }, Duration::from_secs(3600))
    }

    /// Asserts that the wait is still pending.
    pub(super) async fn still_waits(&mut self) -> bool {
        for _ in 0..POLLS {
            let poll = poll_fn(|context| Poll::Ready(self.0.as_mut().poll(context)));
            if poll.await.is_ready() {
                return false;
            }
            tokio::task::yield_now().await;
        }
        true
    }

    /// Asserts that the wait is woken.
    pub(super) async fn wakes(self) {
        assert_eq!(self.0.await, Wake::Ready);
    }

    /// Asserts that the wait times out.
    pub(super) async fn times_out(self) {
        assert_eq!(self.0.await, Wake::TimedOut);
    }
}

/// Interest in work of a namespace, fragile or not.
pub(super) fn work(space: &str, queues: &[&str], types: Option<&[&str]>) -> Interest {
    let types = types.map(|types| types.iter().map(|name| task_type(name)).collect());
    Interest::Work { namespace: namespace(space), queues: queue_names(queues), types, fragile: true }
}
