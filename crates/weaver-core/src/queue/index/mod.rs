//! The views of the truth: which task goes next, which is due when, whose lease ends when. Ids and thirty-two
//! bytes per live task; the records themselves are their owner's business, in memory or on disk (ADR-0001).
//!
//! ```text
//! entries    id → how it stands             live tasks only        ┐
//! scheduled  (when, id)                     waiting for a span     │
//! appointed  (instant, id)                  waiting for an instant │
//! queues     lanes of (when, id)            waiting, due           ├ synchronous, nothing but memory
//! gates      serial key → ids               who of a key may go    │
//! leases     (end, id)                      running or held        ┘
//! ```
//!
//! The owner tells it of every change of a record ([`Index::insert`], [`Index::update`]), asks it for the
//! next task ([`Index::pick`]), and makes the move itself. What waiting callers must be told is left in the
//! index until the owner passes it to its [`Waiters`], after its lock is released or its disk is synced.

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
mod unreadable;
mod waiters;

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;

pub use pick::{Picks, Taste};
pub use standing::Standing;
pub use unreadable::Hold;
pub use waiters::{Waiters, Wanted};

use crate::admission;
use crate::id::{LeaseToken, TaskId};
use crate::queue::index::entries::Entries;
use crate::queue::index::gate::Gates;
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::LaneKey;
use crate::queue::index::leases::LeaseList;
use crate::queue::index::queues::Queues;
use crate::store_clock::StoreNow;
use crate::time::Timestamp;

/// The views over the live tasks of a store.
#[derive(Debug, Default)]
pub struct Index {
    /// The store's own time: never goes back, whatever the clock does.
    now: Timestamp,
    /// What the wall clock said last. It may go back.
    wall: Timestamp,
    entries: Entries,
    kinds: Kinds,
    // A tree rather than a heap: a cancelled task leaves at once instead of lying around until its time.
    scheduled: BTreeSet<(Timestamp, TaskId)>,
    /// The same for those whose time is an instant of the wall clock.
    appointed: BTreeSet<(Timestamp, TaskId)>,
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
    pub fn tick(&mut self, now: impl Into<StoreNow>) {
        let now = now.into();
        self.now = self.now.max(now.steady);
        let before = std::mem::replace(&mut self.wall, now.wall);
        if !self.expiring.is_empty() && before != self.wall {
            let (from, to) = (before.min(self.wall), before.max(self.wall));
            let between = self.expiring.range((from, TaskId(0))..=(to, TaskId(u64::MAX)));
            let answers = |at| [before, self.wall].map(|now| admission::is_expired(true, now, Some(at)));
            let changed = between.filter_map(|(at, id)| match answers(*at) {
                [then, now] if then != now => Some((*id, now)),
                _ => None,
            });
            // Set back, the wall clock has not come to what it had passed.
            for (id, is_expired) in changed.collect::<Vec<_>>() {
                match is_expired {
                    true => self.shelve(id),
                    false => self.unshelve(id),
                }
            }
        }
        while let Some(id) = first_due(&mut self.scheduled, self.now) {
            self.make_ready(id);
        }
        while let Some(id) = first_due(&mut self.appointed, self.wall) {
            self.make_ready(id);
        }
    }

    /// In how long the next task becomes due, if the wall clock is not set meanwhile.
    pub fn next_due(&self) -> Option<Duration> {
        let scheduled = self.scheduled.first().map(|(ready_at, _)| ready_at.since(self.now));
        let appointed = self.appointed.first().map(|(ready_at, _)| ready_at.since(self.wall));
        scheduled.into_iter().chain(appointed).min()
    }

    /// Both times, as last told.
    pub fn store_now(&self) -> StoreNow {
        StoreNow { steady: self.now, wall: self.wall }
    }

    /// Takes what waiting callers should be told; [`Waiters::choose`] finds whom.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }
}

/// Takes the first task that is due.
fn first_due(waiting: &mut BTreeSet<(Timestamp, TaskId)>, now: Timestamp) -> Option<TaskId> {
    let &(ready_at, id) = waiting.first()?;
    if !admission::is_due(ready_at, now) {
        return None;
    }
    waiting.pop_first();
    Some(id)
}
