//! The stream of changes (G10): a change log in memory that follows the table `moves`.
//!
//! A reader's position is a snapshot: rows visible now that the last snapshot could not see are new, however
//! the transactions overlapped. That needs no second write per transition, and does not wait for long
//! transactions, as reading below the oldest running one would.

use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::{TaskId, TaskKey, Version};
use weaver_core::queue::change_log::ChangeLog;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use crate::PostgresStore;
use crate::error::{Result, StoreFault};
use crate::names::Interner;
use crate::row::undecodable;
use crate::types::At;

/// How many changes are kept for readers that lag behind.
const CHANGE_LOG_CAPACITY: usize = 262_144;
/// How many rows of moves are read at once. A process that has more to catch up with announces a resync
/// instead.
const ROWS_MAX: i64 = 100_000;

/// The position of this process in `moves`.
#[derive(Debug)]
pub(crate) struct Follower {
    change_log: ChangeLog,
    incarnation: u64,
    /// `None` before the first read.
    snapshot: Option<String>,
}

impl Follower {
    pub(crate) fn new(incarnation: u64) -> Self {
        Self { change_log: ChangeLog::new(CHANGE_LOG_CAPACITY, incarnation), incarnation, snapshot: None }
    }

    /// Drops all changes: every reader gets a resync.
    fn reset(&mut self, snapshot: String) {
        // Incarnations are drawn from a sequence: no other node or restart reaches this number.
        self.incarnation = self.incarnation.wrapping_add(1 << 40);
        self.change_log = ChangeLog::new(CHANGE_LOG_CAPACITY, self.incarnation);
        self.snapshot = Some(snapshot);
    }
}

impl PostgresStore {
    pub(super) async fn read_changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        self.catch_up().await?;
        Ok(self.follower.lock().change_log.read(after, limit as usize))
    }

    pub(super) async fn has_changes(&self, after: ChangeCursor) -> Result<bool> {
        self.catch_up().await?;
        Ok(self.follower.lock().change_log.has_after(after))
    }

    /// Reads what has become visible since the last time.
    async fn catch_up(&self) -> Result<()> {
        loop {
            let before = self.follower.lock().snapshot.clone();
            let Some(before) = before else {
                let now: String = self.sql.snapshot.scalar().fetch_one(&self.connections).await?;
                self.follower.lock().snapshot.get_or_insert(now);
                return Ok(());
            };
            let (now, lost, changes) = self.changes_since(&before).await?;
            let mut follower = self.follower.lock();
            if follower.snapshot.as_ref() != Some(&before) {
                // A concurrent call advanced the snapshot: start over, so that no row is read twice.
                continue;
            }
            if lost {
                follower.reset(now);
            } else {
                changes.into_iter().for_each(|change| follower.change_log.push(change));
                follower.snapshot = Some(now);
            }
            return Ok(());
        }
    }

    async fn changes_since(&self, before: &str) -> Result<(String, bool, Vec<Change>)> {
        let rows = self.sql.changes.query().bind(before).bind(ROWS_MAX).fetch_all(&self.connections).await?;
        let mut changes = Vec::new();
        let mut interner = Interner::default();
        let (mut now, mut lost) = (before.to_owned(), rows.len() as i64 == ROWS_MAX);
        for row in &rows {
            row.try_get::<&str, _>(0)?.clone_into(&mut now);
            lost |= row.try_get::<bool, _>(1)?;
            let Some(At(at)) = row.try_get::<Option<At>, _>(2)? else { continue };
            match moves(row, at, &mut interner) {
                Ok(moves) => changes.extend(moves),
                // Its tasks are unknown: readers must resync (G10).
                Err(fault) => {
                    let reason = undecodable(fault);
                    tracing::error!(%reason, "unreadable row in `moves`; readers of changes must resync");
                    lost = true;
                }
            }
        }
        Ok((now, lost, changes))
    }
}

/// The changes of one row of `moves`.
fn moves(row: &PgRow, at: Timestamp, interner: &mut Interner) -> Result<Vec<Change>> {
    let ids: Vec<i64> = row.try_get(3)?;
    let namespaces: Vec<String> = row.try_get(4)?;
    let versions: Vec<i64> = row.try_get(5)?;
    let states: Vec<i16> = row.try_get(6)?;
    let change = |(place, id): (usize, &i64)| {
        let namespace = interner.namespace(of(&namespaces, place)?)?;
        let version = Version(of(&versions, place)?.unsigned_abs());
        let state = usize::try_from(*of(&states, place)?).ok();
        let state = state.and_then(|index| TaskState::ALL.get(index)).copied();
        let state = state.ok_or_else(|| StoreFault::unreadable("a row of `moves` with an unknown state"))?;
        let key = TaskKey::new(namespace, TaskId(id.unsigned_abs()));
        Ok(Change { key, version, state, at })
    };
    ids.iter().enumerate().map(change).collect()
}

/// The member at a position; an array of length one applies to all.
fn of<T>(all: &[T], place: usize) -> Result<&T> {
    let member = all.get(if all.len() == 1 { 0 } else { place });
    member.ok_or_else(|| StoreFault::unreadable("a row of `moves` with too short an array"))
}
