//! The reconciliation loops, one per queue: on every change of the queue, and at an interval.
//!
//! ```text
//! run ── lists the queues ─▶ one task per queue: reconcile (a permit each) ─▶ wait for its wake-up ─▶ …
//! ```
//!
//! Git in one repository can take minutes. No queue waits for another one's, except for a permit when
//! `reconcile_concurrency` queues are being reconciled.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::TaskKey;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Timestamp;

use super::{EngineError, MergeEngine};
use crate::domain::QueueId;

/// Longest wait for changes of tasks.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BATCH: u32 = 1000;
/// Shortest wait between two reconciliations of a queue that asks for one at once.
const PAUSE_MIN: Duration = Duration::from_millis(100);

impl MergeEngine {
    /// Reconciles every queue until `stop` resolves, and then until the reconciliations that have begun end.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let mut changed = self.changes();
        let (closing, closed) = watch::channel(false);
        let permits = Arc::new(Semaphore::new(self.options.policy.reconcile_concurrency.max(1)));
        let (mut loops, mut looping) = (JoinSet::new(), HashSet::new());
        loop {
            changed.mark_unchanged();
            for id in self.by_urgency().await {
                if looping.insert(id.clone()) {
                    let (engine, permits) = (self.clone(), Arc::clone(&permits));
                    loops.spawn(engine.reconcile_loop(id, permits, closed.clone()));
                }
            }
            let next_listing = self.clock.monotonic().saturating_add(self.interval());
            tokio::select! {
                biased;
                () = &mut stop => break,
                // Its queue was removed; a queue of the same name may be there by now.
                Some(Ok(ended)) = loops.join_next() => drop(looping.remove(&ended)),
                // It cannot fail: this engine holds the sender.
                _ = changed.changed() => {}
                () = self.clock.sleep_until(next_listing) => {}
            }
        }
        closing.send_replace(true);
        while loops.join_next().await.is_some() {}
    }

    /// Reconciles one queue until it is removed or the engine stops. Every round waits, also a failed one, so
    /// that an error does not cause a busy loop.
    async fn reconcile_loop(
        self,
        id: QueueId,
        permits: Arc<Semaphore>,
        mut closed: watch::Receiver<bool>,
    ) -> QueueId {
        let woken = self.wakers.of(&id);
        loop {
            let after = self.current_cursor().await;
            let permit = tokio::select! {
                biased;
                _ = closed.wait_for(|is_closed| *is_closed) => break,
                permit = permits.acquire() => permit,
            };
            let wake_at = match self.reconcile_apart(&id).await {
                Ok(wake_at) => wake_at,
                Err(EngineError::NoQueue(_)) => break,
                Err(problem) => {
                    tracing::warn!(queue = %id, %problem, "merge queue reconciliation failed; retrying");
                    None
                }
            };
            drop(permit);
            tokio::select! {
                biased;
                _ = closed.wait_for(|is_closed| *is_closed) => break,
                () = self.wake_up(&id, &woken, after, wake_at) => {}
            }
        }
        self.wakers.forget(&id);
        self.shares.forget(&id);
        id
    }

    async fn wake_up(
        &self,
        id: &QueueId,
        woken: &Notify,
        after: Option<ChangeCursor>,
        wake_at: Option<Timestamp>,
    ) {
        let every = self.interval();
        let until_wake = wake_at.map_or(every, |at| at.since(self.clock.now()).min(every));
        let deadline = self.clock.monotonic().saturating_add(until_wake.max(PAUSE_MIN));
        tokio::select! {
            () = woken.notified() => {}
            () = self.task_changed(id, after) => {}
            () = self.clock.sleep_until(deadline) => {}
        }
    }

    /// In a task of its own: a panic ends this reconciliation and nothing else.
    pub(super) async fn reconcile_apart(&self, id: &QueueId) -> Result<Option<Timestamp>, EngineError> {
        let (engine, queue) = (self.clone(), id.clone());
        let mut apart = JoinSet::new();
        apart.spawn(async move { engine.reconcile(&queue).await });
        match apart.join_next().await {
            Some(Ok(reconciled)) => reconciled,
            Some(Err(error)) => Err(EngineError::Panicked { queue: id.clone(), problem: error.to_string() }),
            None => Ok(None),
        }
    }

    /// Ids of all queues, the most urgent first. After an error, the next listing is at the interval.
    async fn by_urgency(&self) -> Vec<QueueId> {
        let listed = self.queues().await;
        let mut queues = listed.unwrap_or_else(|problem| {
            tracing::warn!(%problem, "listing merge queues failed; retrying");
            Vec::new()
        });
        queues.sort_by_key(|queue| (queue.priority, queue.created_at));
        queues.into_iter().map(|queue| queue.id).collect()
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(self.options.policy.reconcile_every_s.max(1))
    }

    /// Cursor at the end of the change stream, taken before a round so that no change during it is missed.
    async fn current_cursor(&self) -> Option<ChangeCursor> {
        match self.store.changes(None, 1).await {
            Ok(Changes::Next { next, .. } | Changes::Resync { next }) => Some(next),
            // The next round starts after the interval.
            Err(_) => None,
        }
    }

    /// Waits for a transition of a check task of the queue. Other tasks are ignored: a server has thousands
    /// per second. A queue without active checks reads no changes: at most `check_budget` loops do.
    async fn task_changed(&self, id: &QueueId, after: Option<ChangeCursor>) {
        let watched = self.watched(id).await;
        let Some(mut after) = after.filter(|_| !watched.is_empty()) else {
            return std::future::pending().await;
        };
        loop {
            match self.store.changes(Some(after), BATCH).await {
                Ok(Changes::Resync { .. }) => return,
                Ok(Changes::Next { items, next }) => {
                    if items.iter().any(|change| watched.contains(&change.key)) {
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

    /// Active check tasks of a queue.
    async fn watched(&self, id: &QueueId) -> HashSet<TaskKey> {
        // After an error the interval applies.
        let Ok(stored) = self.get(id).await else { return HashSet::new() };
        let open = stored.queue.entries.iter().flat_map(|entry| &entry.checks);
        let open = open.flat_map(|check| check.open_runs()).filter_map(|run| run.task);
        let namespace = self.namespace_of(&stored.queue);
        let tasks = open.chain(stored.queue.stopping.iter().copied());
        tasks.map(|id| TaskKey::new(namespace.clone(), id)).collect()
    }
}
