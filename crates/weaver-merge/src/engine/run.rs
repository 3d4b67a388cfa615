//! The loop: at once on a change, and every so often anyway.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::queue::{Interest, Wake};

use super::MergeEngine;

/// How long one wait for changes of tasks lasts at most.
const WAIT_MAX: Duration = Duration::from_secs(30);

impl MergeEngine {
    /// Reconciles until told to stop. Every round waits, also one that failed: an error must not make a loop hot.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        loop {
            let after = self.now_in_stream().await;
            let wake_at = match self.reconcile_all().await {
                Ok((wake_at, problems)) => {
                    for (queue, problem) in problems {
                        tracing::warn!(%queue, %problem, "a merge queue could not be brought forward");
                    }
                    wake_at
                }
                Err(problem) => {
                    tracing::warn!(%problem, "the merge queues could not be brought forward");
                    None
                }
            };
            let every = Duration::from_secs(self.options.policy.reconcile_every_s.max(1));
            let until_wake = wake_at.map_or(every, |at| at.since(self.clock.now()).min(every));
            let until_wake = until_wake.max(Duration::from_millis(100));
            let deadline = self.clock.monotonic().saturating_add(until_wake);
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.changed.notified() => {}
                () = self.task_changed(after) => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        }
    }

    /// The end of the stream of changes: taken before a round, so that what happens during it is not missed.
    async fn now_in_stream(&self) -> Option<ChangeCursor> {
        match self.store.changes(None, 1).await {
            Ok(Changes::Next { next, .. } | Changes::Resync { next }) => Some(next),
            // The next round is when the interval says.
            Err(_) => None,
        }
    }

    /// Waits until some task moved. Which one does not matter: planning is cheap, and looks for itself.
    async fn task_changed(&self, after: Option<ChangeCursor>) {
        let Some(after) = after else { return std::future::pending().await };
        loop {
            match self.store.wait(Interest::Changes { after }, WAIT_MAX).await {
                Ok(Wake::Ready) => return,
                Ok(Wake::TimedOut) => {}
                Err(_) => return std::future::pending().await,
            }
        }
    }
}
