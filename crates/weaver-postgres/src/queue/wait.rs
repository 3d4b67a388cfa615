//! Waiting: look, then sleep until a hint, a due time or the next poll, and look again.

use std::time::Duration;

use sqlx::Row;
use tokio::sync::watch;
use weaver_core::queue::{Interest, Wake};
use weaver_core::time::Monotonic;

use crate::PostgresStore;
use crate::error::Outcome;
use crate::types::span;

/// How long a hint that got lost can go unnoticed.
const WORK_POLL: Duration = Duration::from_secs(1);
/// Other nodes' moves are not announced one by one: whoever follows them looks this often.
const CHANGES_POLL: Duration = Duration::from_millis(250);

impl PostgresStore {
    pub(super) async fn wait_for(&self, interest: Interest, timeout: Duration) -> Outcome<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        let mut hint = match interest {
            Interest::Work { .. } => self.hints.of_work(),
            Interest::Changes { .. } => self.hints.of_changes(),
        };
        loop {
            // What comes after this is a reason to look again.
            hint.mark_unchanged();
            // Before the question is sent: a clock that moves meanwhile makes us look again, not sleep on.
            let asked = self.clock.monotonic();
            let next = match self.look(&interest).await? {
                None => return Ok(Wake::Ready),
                Some(pause) => asked.saturating_add(pause),
            };
            if self.clock.monotonic() >= deadline {
                return Ok(Wake::TimedOut);
            }
            self.pause(&mut hint, next.min(deadline)).await;
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
                    .fetch_one(&self.connections)
                    .await?;
                if row.try_get(0)? {
                    return Ok(None);
                }
                let due_in: Option<i64> = row.try_get(1)?;
                Ok(Some(due_in.map_or(WORK_POLL, |micros| span(micros).min(WORK_POLL))))
            }
            Interest::Changes { after } => {
                Ok(if self.has_changes(*after).await? { None } else { Some(CHANGES_POLL) })
            }
        }
    }

    async fn pause(&self, hint: &mut watch::Receiver<()>, until: Monotonic) {
        tokio::select! {
            // The sender lives as long as the store.
            _ = hint.changed() => {}
            () = self.clock.sleep_until(until) => {}
        }
    }
}
