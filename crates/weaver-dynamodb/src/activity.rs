//! Whether others are writing. A process that writes says so at most once a second, before it writes; one
//! that reads changes looks at most once a second, and where others have been active tells its readers to
//! read again (G10).

use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::time::Monotonic;

use crate::codec::value::{Attributes, n};
use crate::db::{Table, Write, Written};
use crate::keys;
use crate::store::DynamoStore;

/// How often a process says that it writes, and how often one looks.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// A sign covers the writes of the second after it; as long again, and more, for requests that were slow.
const ECHO: Duration = Duration::from_secs(6);

/// What is known of who writes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    said_at: Option<Monotonic>,
    /// Signs given by this process.
    own: u64,
    /// Signs given by others, when last looked.
    others: Option<u64>,
    looked_at: Option<Monotonic>,
    others_seen_at: Option<Monotonic>,
}

impl DynamoStore {
    /// Says that this process is about to write.
    pub(crate) async fn announce(&self) -> Result<()> {
        let now = self.clock.monotonic();
        {
            let mut activity = self.activity.lock();
            if activity.said_at.is_some_and(|at| at.saturating_add(POLL) > now) {
                return Ok(());
            }
            activity.said_at = Some(now);
            activity.own += 1;
        }
        let write = Write::update(Table::Data, keys::activity(), "ADD signs :one").value(":one", n(1));
        match self.db.write(write).await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.activity.lock().said_at = None;
                Err(error)
            }
        }
    }

    /// Looks whether others have written, if it is time; if so, readers of changes are told.
    pub(crate) async fn look_for_others(&self) -> Result<()> {
        let now = self.clock.monotonic();
        let own_before = {
            let mut activity = self.activity.lock();
            if activity.looked_at.is_some_and(|at| at.saturating_add(POLL) > now) {
                return Ok(());
            }
            activity.looked_at = Some(now);
            activity.own
        };
        let found = self.db.get(Table::Data, vec![keys::activity()]).await?;
        let signs = found.first().and_then(|item| item.number("signs")).unwrap_or_default();
        let must_tell = {
            let mut activity = self.activity.lock();
            // Signs of our own that were sent meanwhile may be in it or not: at worst, readers read once
            // more.
            let others = signs.saturating_sub(own_before);
            let known = activity.others.replace(others);
            if known.is_some_and(|known| known != others) {
                activity.others_seen_at = Some(now);
            }
            activity.others_seen_at.is_some_and(|at| at.saturating_add(ECHO) > now)
        };
        if must_tell {
            self.resync();
        }
        Ok(())
    }

    /// A write whose outcome matters only to tidiness.
    pub(crate) async fn write_lightly(&self, write: Write) {
        match self.db.write(write).await {
            Ok(Written::Done(_) | Written::Refused | Written::Busy) => {}
            Err(error) => tracing::debug!(%error, "left behind for a later pass"),
        }
    }
}
