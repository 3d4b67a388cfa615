//! Unreadable records: listing them, and removing unreadable tasks.

use async_trait::async_trait;

use crate::error::Result;
use crate::id::TaskKey;
use crate::name::Namespace;
use crate::ports::{Cursor, Page};
use crate::quarantine::{Discarded, Quarantined, RawTask};

/// Records that this process found unreadable, and tasks in their stored form.
///
/// # Contract
/// - One unreadable record fails no call about others: it is left out of lists and batches, and listed here.
/// - Its state, version and bytes stay as they are. Its serial key and slot stay held as far as they can be
///   read.
/// - A record whose format number this process does not know is never leased, expired or changed by it.
/// - A finding is this process's own. It leaves the list within a minute after the record was removed or
///   became readable again.
#[async_trait]
pub trait UnreadableRecords: Send + Sync {
    /// What this process found unreadable so far; `None`: in every namespace. `weaver store check` reads
    /// everything.
    async fn list_quarantined(
        &self,
        namespace: Option<&Namespace>,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Quarantined>>;

    /// The finding about each task, for callers to whom [`get_tasks`](crate::ports::Tasks::get_tasks)
    /// returned `None`.
    async fn find_quarantined(&self, keys: &[TaskKey]) -> Result<Vec<Option<Quarantined>>>;

    /// A task in its stored form, readable or not, live or finished.
    async fn raw_task(&self, key: &TaskKey) -> Result<Option<RawTask>>;

    /// Removes a task with its logs, readable or not, live or finished, if its stored form is still
    /// `expected`. Its unique keys stay (G8); the renewal of a worker that still holds its lease is
    /// [`Lost`](crate::lease::Renewed::Lost).
    async fn discard_task(&self, key: &TaskKey, expected: &RawTask) -> Result<Discarded>;
}
