//! A store on a runtime of its own, in a world whose time is virtual. Each call is carried out to its end
//! while the world's thread stands still, so that it takes no virtual time and nothing happens in between,
//! which is what the checks go by. So a world can use a store behind a network, and its seeds mean what they
//! mean elsewhere.

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

/// How often a waiter looks, in virtual time, when nothing happens here.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Tells the store what time it is in the world, before each call.
pub type TellTime =
    Box<dyn Fn(Timestamp, Monotonic) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A store on a runtime of its own.
pub type Elsewhere = Intercepted<OtherRuntime>;

/// Carries calls out on another runtime.
pub struct OtherRuntime {
    clock: Arc<dyn Clock>,
    runtime: Handle,
    tell_time: TellTime,
    /// Something was written: the store's own hints come on real time.
    changed: Notify,
}

/// Carries a future out on a runtime while the caller's thread stands still.
pub fn carry_out<T: Send + 'static>(runtime: &Handle, future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    // Nothing waits for the answer if the test has failed.
    runtime.spawn(async move { drop(sender.send(future.await)) });
    receiver.recv().expect("the call comes to its end")
}

impl Elsewhere {
    /// A store, on the world's clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, runtime: Handle, tell_time: TellTime) -> Self {
        Self::of(store, OtherRuntime { clock, runtime, tell_time, changed: Notify::new() })
    }
}

#[async_trait]
impl Intercept for OtherRuntime {
    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        if let Call::Wait { interest, timeout } = call {
            return self.wait(interest, timeout, store).await;
        }
        let may_wake = matches!(
            call,
            Call::EnqueueBatch { .. }
                | Call::Commit { .. }
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

impl OtherRuntime {
    fn step(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        // Asked here: on any other thread the world's clock shows real time.
        let told = (self.tell_time)(self.clock.now(), self.clock.monotonic());
        let store = Arc::clone(store);
        carry_out(&self.runtime, async move {
            told.await;
            call.send(store.as_ref()).await
        })
    }

    /// Looks again after every change, and every virtual second.
    async fn wait(&self, interest: Interest, timeout: Duration, store: &Arc<dyn Store>) -> Result<Answer> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let look = Call::Wait { interest: interest.clone(), timeout: Duration::ZERO };
            let seen = self.step(look, store)?;
            let now = self.clock.monotonic();
            if matches!(seen, Answer::Wait(Wake::Ready)) || now >= deadline {
                return Ok(seen);
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = self.clock.sleep_until(deadline.min(now.saturating_add(LOOKS_EVERY))) => {}
            }
        }
    }
}
