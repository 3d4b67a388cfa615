//! The loop: at once on a change, and every so often anyway.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::TaskId;
use weaver_core::queue::{Interest, Wake};

use super::MergeEngine;

/// How long one wait for changes of tasks lasts at most.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How many changes of tasks are read at once.
const BATCH: u32 = 1000;

impl MergeEngine {
    /// Reconciles until told to stop. Every round waits, also one that failed: an error must not make a loop
    /// hot.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let mut changed = self.changes();
        loop {
            changed.mark_unchanged();
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
                // An error would mean that nobody can change anything any more, and this engine can.
                _ = changed.changed() => {}
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

    /// Waits until a task of a check moved. Others do not count: a server has thousands of them a second.
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
                    let is_all = items.is_empty();
                    after = next;
                    if !is_all {
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

    /// The tasks whose end the queues wait for.
    async fn watched(&self) -> HashSet<TaskId> {
        // What cannot be read now is looked at when the interval says.
        let queues = self.queues().await.unwrap_or_default();
        let open = queues.iter().flat_map(|queue| &queue.entries).flat_map(|entry| &entry.checks);
        let open = open.flat_map(|check| check.open_runs()).filter_map(|run| run.task);
        open.chain(queues.iter().flat_map(|queue| queue.stopping.iter().copied())).collect()
    }
}
