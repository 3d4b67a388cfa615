//! The stream of changes (G10): a ring in this process that follows the table of moves.
//!
//! A reader's place is a snapshot: what it can see and the last snapshot could not is new, however the
//! transactions overlapped. That needs no second write per move and does not wait for somebody's long
//! transaction, as reading below the oldest running one would.

use sqlx::Row;
use sqlx::postgres::PgRow;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::{TaskId, TaskKey, Version};
use weaver_core::queue::ring::Ring;
use weaver_core::task::TaskState;
use weaver_core::time::Timestamp;

use crate::PostgresStore;
use crate::error::{Outcome, Trouble};
use crate::names::Seen;
use crate::row::undecodable;
use crate::types::At;

/// How many changes are kept for readers that lag behind.
const RING_CAPACITY: usize = 262_144;
/// How many rows of moves are read at once. A process that has more to catch up with announces a resync
/// instead.
const ROWS_MAX: i64 = 100_000;

/// Where this process has got to.
#[derive(Debug)]
pub(crate) struct Follower {
    ring: Ring,
    incarnation: u64,
    /// Nothing before somebody asks.
    snapshot: Option<String>,
}

impl Follower {
    pub(crate) fn new(incarnation: u64) -> Self {
        Self { ring: Ring::new(RING_CAPACITY, incarnation), incarnation, snapshot: None }
    }

    /// Forgets everything: readers are told to resync.
    fn begin_anew(&mut self, snapshot: String) {
        // No other node's number is between two of one sequence; far enough from the next life's.
        self.incarnation = self.incarnation.wrapping_add(1 << 40);
        self.ring = Ring::new(RING_CAPACITY, self.incarnation);
        self.snapshot = Some(snapshot);
    }
}

impl PostgresStore {
    pub(super) async fn read_changes(&self, after: Option<ChangeCursor>, limit: u32) -> Outcome<Changes> {
        self.catch_up().await?;
        Ok(self.follower.lock().ring.read(after, limit as usize))
    }

    pub(super) async fn has_changes(&self, after: ChangeCursor) -> Outcome<bool> {
        self.catch_up().await?;
        Ok(self.follower.lock().ring.has_after(after))
    }

    /// Reads what has become visible since the last time.
    async fn catch_up(&self) -> Outcome<()> {
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
                // Somebody else was faster; what it read is not read twice.
                continue;
            }
            if lost {
                follower.begin_anew(now);
            } else {
                changes.into_iter().for_each(|change| follower.ring.push(change));
                follower.snapshot = Some(now);
            }
            return Ok(());
        }
    }

    async fn changes_since(&self, before: &str) -> Outcome<(String, bool, Vec<Change>)> {
        let rows = self.sql.changes.query().bind(before).bind(ROWS_MAX).fetch_all(&self.connections).await?;
        let mut changes = Vec::new();
        let mut seen = Seen::default();
        let (mut now, mut lost) = (before.to_owned(), rows.len() as i64 == ROWS_MAX);
        for row in &rows {
            row.try_get::<&str, _>(0)?.clone_into(&mut now);
            lost |= row.try_get::<bool, _>(1)?;
            let Some(At(at)) = row.try_get::<Option<At>, _>(2)? else { continue };
            match moves(row, at, &mut seen) {
                Ok(moves) => changes.extend(moves),
                // What it was about is not known: readers are told that something is missing (G10).
                Err(trouble) => {
                    tracing::error!(why = %undecodable(trouble), "unreadable move; readers of changes resync");
                    lost = true;
                }
            }
        }
        Ok((now, lost, changes))
    }
}

/// What one row of moves says.
fn moves(row: &PgRow, at: Timestamp, seen: &mut Seen) -> Outcome<Vec<Change>> {
    let ids: Vec<i64> = row.try_get(3)?;
    let namespaces: Vec<String> = row.try_get(4)?;
    let versions: Vec<i64> = row.try_get(5)?;
    let states: Vec<i16> = row.try_get(6)?;
    let change = |(place, id): (usize, &i64)| {
        let namespace = seen.namespace(of(&namespaces, place)?)?;
        let version = Version(of(&versions, place)?.unsigned_abs());
        let state = usize::try_from(*of(&states, place)?).ok();
        let state = state.and_then(|index| TaskState::ALL.get(index)).copied();
        let state = state.ok_or_else(|| Trouble::unreadable("a move to no state"))?;
        let key = TaskKey::new(namespace, TaskId(id.unsigned_abs()));
        Ok(Change { key, version, state, at })
    };
    ids.iter().enumerate().map(change).collect()
}

/// The member at a place; an array of one stands for all.
fn of<T>(all: &[T], place: usize) -> Outcome<&T> {
    all.get(if all.len() == 1 { 0 } else { place }).ok_or_else(|| Trouble::unreadable("a move cut short"))
}
