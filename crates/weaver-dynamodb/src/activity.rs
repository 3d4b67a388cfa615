//! Detects writes by other processes.
//!
//! A process increments a shared counter before it writes, at most once a second. A process that reads
//! changes polls the counter, at most once a second; if others have been active, its readers must resync
//! (G10).

use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::time::Monotonic;

use crate::codec::value::{Attributes, n};
use crate::db::{Table, Write, Written};
use crate::keys;
use crate::store::DynamoStore;

/// Interval of announcements, and of polls.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// How long readers resync after an announcement: it covers the writes of the next second, and slow requests.
const RESYNC_FOR: Duration = Duration::from_secs(6);

/// What this process knows about writers.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    announced_at: Option<Monotonic>,
    /// Announcements of this process.
    own: u64,
    /// Announcements of other processes at the last poll.
    others: Option<u64>,
    polled_at: Option<Monotonic>,
    others_seen_at: Option<Monotonic>,
}

impl DynamoStore {
    /// Announces that this process is about to write.
    pub(crate) async fn announce(&self) -> Result<()> {
        let now = self.clock.monotonic();
        {
            let mut activity = self.activity.lock();
            if activity.announced_at.is_some_and(|at| at.saturating_add(POLL) > now) {
                return Ok(());
            }
            activity.announced_at = Some(now);
            activity.own += 1;
        }
        let write = Write::update(Table::Data, keys::activity(), "ADD signs :one").value(":one", n(1));
        match self.db.write(write).await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.activity.lock().announced_at = None;
                Err(error)
            }
        }
    }

    /// Polls for writes by other processes, if due; if there are any, readers of changes must resync.
    pub(crate) async fn poll_other_writers(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let own_before = {
            let mut activity = self.activity.lock();
            if activity.polled_at.is_some_and(|at| at.saturating_add(POLL) > now) {
                return Ok(());
            }
            activity.polled_at = Some(now);
            activity.own
        };
        let found = self.db.get(Table::Data, vec![keys::activity()]).await?;
        let signs = found.first().and_then(|item| item.number("signs")).unwrap_or_default();
        let must_resync = {
            let mut activity = self.activity.lock();
            // Our own announcements in flight may or may not be counted: at worst, readers resync once more.
            let others = signs.saturating_sub(own_before);
            let known = activity.others.replace(others);
            if known.is_some_and(|known| known != others) {
                activity.others_seen_at = Some(now);
            }
            activity.others_seen_at.is_some_and(|at| at.saturating_add(RESYNC_FOR) > now)
        };
        if must_resync {
            self.resync();
        }
        Ok(())
    }

    /// A clean-up write: a later pass repeats it if it fails.
    pub(crate) async fn write_best_effort(&self, write: Write) {
        match self.db.write(write).await {
            Ok(Written::Applied(_) | Written::ConditionFailed | Written::Conflict) => {}
            Err(error) => tracing::debug!(%error, "clean-up write failed; a later pass repeats it"),
        }
    }
}
