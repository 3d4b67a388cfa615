//! A bridge from a world on virtual time to a store on its own runtime.
//!
//! Each call runs to completion while the world's thread blocks, so it takes no virtual time and nothing
//! happens in between, as the checks assume. So a world can use a store behind a network, and its seeds stay
//! valid.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::ports::Store;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::{Monotonic, Timestamp};

use crate::intercept::{Answer, Call, Intercept, Intercepted};

/// Poll interval of a waiter, in virtual time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Sets the store's clock to the world's time before each call.
pub type SetTime =
    Box<dyn Fn(Timestamp, Monotonic) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A store that runs on another runtime.
pub type RuntimeBridge = Intercepted<BridgedRuntime>;

/// Executes calls on another runtime.
pub struct BridgedRuntime {
    clock: Arc<dyn Clock>,
    runtime: Handle,
    set_time: SetTime,
    /// Notified after each write: the store's own wake-ups are in real time.
    changed: Notify,
}

/// Runs a future on a runtime while the caller's thread blocks.
pub fn block_on_handle<T: Send + 'static>(
    runtime: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    // Nothing waits for the answer if the test has failed.
    runtime.spawn(async move { drop(sender.send(future.await)) });
    receiver.recv().expect("the call completes")
}

impl RuntimeBridge {
    /// Bridges `store` to the world's clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, runtime: Handle, set_time: SetTime) -> Self {
        Self::of(store, BridgedRuntime { clock, runtime, set_time, changed: Notify::new() })
    }
}

#[async_trait]
impl Intercept for BridgedRuntime {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        if let Call::Wait { interest, timeout } = call {
            return self.wait(interest, timeout, store).await;
        }
        let may_wake = matches!(
            call,
            Call::EnqueueBatch { .. }
                | Call::EnqueueAudited { .. }
                | Call::Commit { .. }
                | Call::CommitAndLease { .. }
                | Call::ConfirmStopped { .. }
                | Call::PutQueue { .. }
                | Call::DiscardTask { .. }
        );
        let answer = self.step(call, store);
        if may_wake {
            self.changed.notify_waiters();
        }
        answer
    }
}

impl BridgedRuntime {
    fn step(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        // Read here: on any other thread the world's clock shows real time.
        let time_set = (self.set_time)(self.clock.now(), self.clock.monotonic());
        let store = Arc::clone(store);
        block_on_handle(&self.runtime, async move {
            time_set.await;
            call.send(store.as_ref()).await
        })
    }

    /// Polls after every change, and every virtual second.
    async fn wait(&self, interest: Interest, timeout: Duration, store: &Arc<dyn Store>) -> Result<Answer> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let poll = Call::Wait { interest: interest.clone(), timeout: Duration::ZERO };
            let seen = self.step(poll, store)?;
            let now = self.clock.monotonic();
            if matches!(seen, Answer::Wait(Wake::Ready)) || now >= deadline {
                return Ok(seen);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(now.saturating_add(POLL_INTERVAL))) => {}
            }
        }
    }
}
