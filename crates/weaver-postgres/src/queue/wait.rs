//! Long poll: probe, then sleep until a hint, a due time or the next poll interval, and probe again.

use std::time::Duration;

use sqlx::Row;
use tokio::sync::watch;
use weaver_core::lease::Lease;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::queue::{Interest, Queue, Wake};
use weaver_core::task::DispatchFilter;
use weaver_core::time::Monotonic;

use crate::PostgresStore;
use crate::error::Result;
use crate::hints::WorkHint;
use crate::row::RUN_FORMAT;
use crate::types::{Token, span};

/// The longest delay that a lost hint can cause.
const WORK_POLL: Duration = Duration::from_secs(1);
/// A cancellation by another process is found by polling: one lookup by primary key, made only by workers
/// with running tasks. This keeps G11's one second behind a pooler and with any client.
const CANCEL_POLL: Duration = Duration::from_millis(500);
/// Other nodes do not NOTIFY every transition, so followers of changes poll at this interval.
const CHANGES_POLL: Duration = Duration::from_millis(250);

impl PostgresStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        let (mut work, mut changes) = (self.hints.subscribe_work(), self.hints.subscribe_changes());
        let mut cancelled = self.hints.subscribe_cancelled();
        loop {
            // A hint after this point causes another probe.
            let seen = work.borrow_and_update().number;
            changes.mark_unchanged();
            cancelled.mark_unchanged();
            // Read before the probe: if the clock advances during it, the next probe is early, not late.
            let asked = self.clock.monotonic();
            let next = match self.probe(&interest).await? {
                None => return Ok(Wake::Ready),
                Some(pause) => asked.saturating_add(pause),
            };
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            let until = next.min(deadline);
            match &interest {
                Interest::Cancelled { .. } => self.pause(&mut cancelled, until).await,
                Interest::Changes { .. } => self.pause(&mut changes, until).await,
                Interest::Work { .. } | Interest::Assignable { .. } | Interest::Assigned { .. } => {
                    if self.pause_for_work(&mut work, seen, &interest, until).await {
                        return Ok(Wake::Ready);
                    }
                }
            }
        }
    }

    /// Sleeps until a hint says that there may be work. True: the hint named a task for this interest, so no
    /// probe is needed. Hints for other interests do not end the sleep.
    async fn pause_for_work(
        &self,
        work: &mut watch::Receiver<WorkHint>,
        mut seen: u64,
        interest: &Interest,
        until: Monotonic,
    ) -> bool {
        loop {
            self.pause(work, until).await;
            let hint = work.borrow_and_update().clone();
            match hint.tasks {
                Some(tasks) if hint.number == seen.wrapping_add(1) => {
                    if tasks.match_interest(interest) {
                        return true;
                    }
                    seen = hint.number;
                }
                // Timed out, hints were missed, or the hint names no task.
                _ => return false,
            }
        }
    }

    /// `None` if there is something to return; otherwise how long to sleep if no hint arrives.
    async fn probe(&self, interest: &Interest) -> Result<Option<Duration>> {
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                self.probe_for_work(namespace, queues, types.as_deref(), *fragile, DispatchFilter::Pulled)
                    .await
            }
            Interest::Assignable { namespace, queues, types } => {
                self.probe_for_work(namespace, queues, types.as_deref(), true, DispatchFilter::Assigned).await
            }
            Interest::Assigned { namespace, worker } => {
                let found = self.sql.is_assigned.scalar().bind(namespace.as_str()).bind(worker.as_str());
                let found: bool = found.bind(RUN_FORMAT).fetch_one(&self.connections).await?;
                Ok(if found { None } else { Some(WORK_POLL) })
            }
            Interest::Cancelled { leases } => {
                self.limits().check_batch("leases", leases.len())?;
                Ok(if self.any_cancelled(leases).await? { None } else { Some(CANCEL_POLL) })
            }
            Interest::Changes { after } => {
                Ok(if self.has_changes(*after).await? { None } else { Some(CHANGES_POLL) })
            }
        }
    }

    async fn probe_for_work(
        &self,
        namespace: &Namespace,
        queues: &[QueueName],
        types: Option<&[TaskType]>,
        fragile: bool,
        dispatch: DispatchFilter,
    ) -> Result<Option<Duration>> {
        let mut queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
        queues.sort_unstable();
        queues.dedup();
        let types: Option<Vec<&str>> = types.map(|types| types.iter().map(|name| name.as_str()).collect());
        let row = self
            .sql
            .wait_probe
            .query()
            .bind(namespace.as_str())
            .bind(queues)
            .bind(types)
            .bind(fragile)
            .bind(RUN_FORMAT)
            .bind(self.skipped(namespace))
            .bind(i16::from(dispatch.number()))
            .fetch_one(&self.connections)
            .await?;
        if row.try_get(0)? {
            return Ok(None);
        }
        let due_in: Option<i64> = row.try_get(1)?;
        Ok(Some(due_in.map_or(WORK_POLL, |micros| span(micros).min(WORK_POLL))))
    }

    /// Whether any of these leases was cancelled. A cancelled task keeps its row of `leases` during its
    /// cancellation hold, which is as long as its worker may go on: `ended` need not be read.
    async fn any_cancelled(&self, leases: &[Lease]) -> Result<bool> {
        let namespaces: Vec<&str> = leases.iter().map(|lease| lease.key.namespace.as_str()).collect();
        let ids: Vec<i64> = leases.iter().map(|lease| lease.key.id.0 as i64).collect();
        let versions: Vec<i64> = leases.iter().map(|lease| lease.version.0 as i64).collect();
        let tokens: Vec<Token> = leases.iter().map(|lease| Token(lease.token)).collect();
        let any = self.sql.any_cancelled.scalar().bind(namespaces).bind(ids).bind(versions).bind(tokens);
        Ok(any.fetch_one(&self.connections).await?)
    }

    async fn pause<T>(&self, hint: &mut watch::Receiver<T>, until: Monotonic) {
        tokio::select! {
            // The sender lives as long as the store.
            _ = hint.changed() => {}
            () = self.clock.sleep_until(until) => {}
        }
    }
}
