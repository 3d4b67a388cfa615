//! The views of the truth: which task goes next, which is due when, whose lease ends when. Ids and thirty-two bytes per
//! live task; the records themselves are their owner's business, in memory or on disk (ADR-0001).
//!
//! ```text
//! entries    id → how it stands             live tasks only        ┐
//! scheduled  (when, id)                     waiting, not yet due   │
//! queues     lanes of (when, id)            waiting, due           ├ synchronous, nothing but memory
//! gates      serial key → ids               who of a key may go    │
//! leases     (end, id)                      running or held        ┘
//! ```
//!
//! The owner tells it of every change of a record ([`Index::insert`], [`Index::update`]), asks it for the next task
//! ([`Index::pick`]), and makes the move itself. What waiting callers must be told is left in the index until the owner
//! passes it to its [`Waiters`], after its lock is released or its disk is synced.

mod entries;
mod gate;
mod kinds;
mod lane;
mod leases;
mod look;
mod moves;
mod pick;
mod queues;
mod standing;
mod waiters;

use std::collections::BTreeSet;
use std::ops::Bound;

use hashbrown::HashMap;

pub use pick::{Picks, Taste};
pub use standing::Standing;
pub use waiters::{Waiters, Wanted};

use crate::id::{LeaseToken, TaskId};
use crate::queue::index::entries::Entries;
use crate::queue::index::gate::Gates;
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::LaneKey;
use crate::queue::index::leases::LeaseList;
use crate::queue::index::queues::Queues;
use crate::time::Timestamp;

/// The views over the live tasks of a store.
#[derive(Debug, Default)]
pub struct Index {
    /// Never goes back, whatever the clock does: what was due stays due.
    now: Timestamp,
    entries: Entries,
    kinds: Kinds,
    // A tree rather than a heap: a cancelled task leaves at once instead of lying around until its time.
    scheduled: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks that have not started and have an `expires_at`.
    expiring: BTreeSet<(Timestamp, TaskId)>,
    queues: Queues,
    gates: Gates,
    leases: LeaseList,
    /// What each lease call granted that is still running or held.
    grants: HashMap<LeaseToken, Granted>,
    news: News,
    /// Whether anybody waits for work: if not, nobody need be told of arrivals.
    pub watched: bool,
}

#[derive(Debug, Default)]
struct Granted {
    ids: Vec<TaskId>,
    live: usize,
}

impl Granted {
    fn add(&mut self, id: TaskId) {
        self.ids.push(id);
        self.live += 1;
    }
}

/// What those who wait for work should be told, once it may be known.
#[derive(Debug, Default)]
pub struct News {
    /// Queues in which something can be taken that could not before; one entry per task.
    arrivals: Vec<Arrival>,
    /// Whether the next task becomes due earlier than was known.
    earlier_due: bool,
}

/// Something can be taken.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    queue: u32,
    /// The lane, if one task arrived; `None` if the queue as a whole opened.
    lane: Option<LaneKey>,
}

impl Index {
    /// The store's time, as last told.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Takes note of the time: what is due becomes ready.
    pub fn tick(&mut self, now: Timestamp) {
        let before = self.now;
        self.now = before.max(now);
        if !self.expiring.is_empty() && before < self.now {
            let last = TaskId(u64::MAX);
            let span = (Bound::Excluded((before, last)), Bound::Included((self.now, last)));
            let expired: Vec<_> = self.expiring.range(span).map(|(_, id)| *id).collect();
            expired.into_iter().for_each(|id| self.shelve(id));
        }
        while let Some(&(ready_at, id)) = self.scheduled.first() {
            if ready_at > self.now {
                break;
            }
            self.scheduled.pop_first();
            self.make_ready(id);
        }
    }

    /// When the next task becomes due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.scheduled.first().map(|(ready_at, _)| *ready_at)
    }

    /// Takes what waiting callers should be told; [`Waiters::choose`] finds whom.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }
}
