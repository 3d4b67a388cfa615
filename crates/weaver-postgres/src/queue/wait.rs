//! Waiting: look, then sleep until a hint, a due time or the next poll, and look again.

use std::time::Duration;

use sqlx::Row;
use tokio::sync::watch;
use weaver_core::lease::Lease;
use weaver_core::queue::{Interest, Queue, Wake};
use weaver_core::time::Monotonic;

use crate::PostgresStore;
use crate::error::Outcome;
use crate::hints::Said;
use crate::row::RUN_FORMAT;
use crate::types::{Token, span};

/// How long a hint that got lost can go unnoticed.
const WORK_POLL: Duration = Duration::from_secs(1);
/// A cancellation by another process is found by polling: a look is one lookup by primary key, only a worker
/// with tasks in hand looks, and G11's second then holds behind a pooler and whatever client cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(500);
/// Other nodes' moves are not announced one by one: whoever follows them looks this often.
const CHANGES_POLL: Duration = Duration::from_millis(250);

impl PostgresStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Outcome<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        let (mut work, mut changes) = (self.hints.of_work(), self.hints.of_changes());
        let mut cancelled = self.hints.of_cancelled();
        loop {
            // What comes after this is a reason to look again.
            let heard = work.borrow_and_update().number;
            changes.mark_unchanged();
            cancelled.mark_unchanged();
            // Before the question is sent: a clock that moves meanwhile makes us look again, not sleep on.
            let asked = self.clock.monotonic();
            let next = match self.look(&interest).await? {
                None => return Ok(Wake::Ready),
                Some(pause) => asked.saturating_add(pause),
            };
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            let until = next.min(deadline);
            match interest {
                Interest::Cancelled { .. } => self.pause(&mut cancelled, until).await,
                Interest::Changes { .. } => self.pause(&mut changes, until).await,
                Interest::Work { .. } => {
                    if self.pause_for_work(&mut work, heard, &interest, until).await {
                        return Ok(Wake::Ready);
                    }
                }
            }
        }
    }

    /// Sleeps until somebody says that there may be work. True: there was something for this interest, so
    /// there is no need to look; what was said for others is slept through.
    async fn pause_for_work(
        &self,
        work: &mut watch::Receiver<Said>,
        mut heard: u64,
        interest: &Interest,
        until: Monotonic,
    ) -> bool {
        loop {
            self.pause(work, until).await;
            let said = work.borrow_and_update().clone();
            match said.what {
                Some(what) if said.number == heard.wrapping_add(1) => {
                    if what.is_for(interest) {
                        return true;
                    }
                    heard = said.number;
                }
                // Time is up, or it may be anything.
                _ => return false,
            }
        }
    }

    /// Nothing if there is something; else how long it makes no sense to look again without a hint.
    async fn look(&self, interest: &Interest) -> Outcome<Option<Duration>> {
        match interest {
            Interest::Work { namespace, queues, types, fragile } => {
                let mut queues: Vec<&str> = queues.iter().map(|queue| queue.as_str()).collect();
                queues.sort_unstable();
                queues.dedup();
                let types: Option<Vec<&str>> =
                    types.as_ref().map(|types| types.iter().map(|name| name.as_str()).collect());
                let row = self
                    .sql
                    .look
                    .query()
                    .bind(namespace.as_str())
                    .bind(queues)
                    .bind(types)
                    .bind(fragile)
                    .bind(RUN_FORMAT)
                    .bind(self.skipped(namespace))
                    .fetch_one(&self.connections)
                    .await?;
                if row.try_get(0)? {
                    return Ok(None);
                }
                let due_in: Option<i64> = row.try_get(1)?;
                Ok(Some(due_in.map_or(WORK_POLL, |micros| span(micros).min(WORK_POLL))))
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

    /// Whether any of these leases was cancelled. A cancelled run stays in `job_runs` while its hold lasts,
    /// which is as long as its worker may go on: history need not be asked.
    async fn any_cancelled(&self, leases: &[Lease]) -> Outcome<bool> {
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
