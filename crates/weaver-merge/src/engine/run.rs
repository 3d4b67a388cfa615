//! The reconciliation loop: on every change, and at an interval.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::TaskId;
use weaver_core::queue::{Interest, Wake};

use super::MergeEngine;

/// Longest wait for changes of tasks.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BATCH: u32 = 1000;

impl MergeEngine {
    /// Reconciles until `stop` resolves. Every round waits, also a failed one, so that an error does not
    /// cause a busy loop.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let mut changed = self.changes();
        loop {
            changed.mark_unchanged();
            let after = self.current_cursor().await;
            let wake_at = match self.reconcile_all().await {
                Ok((wake_at, problems)) => {
                    for (queue, problem) in problems {
                        tracing::warn!(%queue, %problem, "merge queue reconciliation failed; retrying");
                    }
                    wake_at
                }
                Err(problem) => {
                    tracing::warn!(%problem, "merge queue reconciliation failed; retrying");
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
                // It cannot fail: this engine holds the sender.
                _ = changed.changed() => {}
                () = self.task_changed(after) => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        }
    }

    /// Cursor at the end of the change stream, taken before a round so that no change during it is missed.
    async fn current_cursor(&self) -> Option<ChangeCursor> {
        match self.store.changes(None, 1).await {
            Ok(Changes::Next { next, .. } | Changes::Resync { next }) => Some(next),
            // The next round starts after the interval.
            Err(_) => None,
        }
    }

    /// Waits for a transition of a check task. Other tasks are ignored: a server has thousands per second.
    async fn task_changed(&self, after: Option<ChangeCursor>) {
        let watched = self.watched().await;
        let Some(mut after) = after.filter(|_| !watched.is_empty()) else {
            return std::future::pending().await;
        };
        loop {
            match self.store.changes(Some(after), BATCH).await {
                Ok(Changes::Resync { .. }) => return,
                Ok(Changes::Next { items, next }) => {
                    let is_ours = |key: &weaver_core::id::TaskKey| {
                        key.namespace == self.options.namespace && watched.contains(&key.id)
                    };
                    if items.iter().any(|change| is_ours(&change.key)) {
                        return;
                    }
                    let is_caught_up = items.is_empty();
                    after = next;
                    if !is_caught_up {
                        continue;
                    }
                }
                Err(_) => return std::future::pending().await,
            }
            match self.store.wait(Interest::Changes { after }, WAIT_MAX).await {
                Ok(Wake::Ready | Wake::TimedOut) => {}
                Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Active check tasks of all queues.
    async fn watched(&self) -> HashSet<TaskId> {
        // After an error the interval applies.
        let queues = self.queues().await.unwrap_or_default();
        let open = queues.iter().flat_map(|queue| &queue.entries).flat_map(|entry| &entry.checks);
        let open = open.flat_map(|check| check.open_runs()).filter_map(|run| run.task);
        open.chain(queues.iter().flat_map(|queue| queue.stopping.iter().copied())).collect()
    }
}
