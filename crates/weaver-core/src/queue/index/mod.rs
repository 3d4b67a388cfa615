//! The index of the live tasks: which one is leased next, which is due when, which lease expires when.
//!
//! It holds ids and thirty-two bytes per live task. The records belong to the store, in memory or on disk
//! (ADR-0001).
//!
//! ```text
//! entries         id → place and state      live tasks only            ┐
//! scheduled       (ready_at, id)            due by the store's time    │
//! scheduled_wall  (ready_at, id)            due by the wall clock      │
//! queues          lanes of (ready_at, id)   due                        ├ synchronous, in memory
//! gates           serial key → ids          which of a key may start   │
//! leases          (expires_at, id)          running or on hold         │
//! assigned        (worker, id)              assigned, not started      ┘
//! ```
//!
//! The store reports every change of a record ([`Index::insert`], [`Index::update`]), asks for the next task
//! ([`Index::pick`]), and applies the transition itself.
//!
//! Wake-ups for waiting callers are collected in the index. The store passes them to its [`Waiters`] after
//! its lock is released or its disk is synced.

mod assignable;
mod entries;
mod gate;
mod index_state;
mod kinds;
mod lane;
mod leases;
mod moves;
mod pick;
mod queries;
mod queues;
mod unreadable;
mod waiters;

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;

pub use index_state::IndexState;
pub use pick::{LeaseFilter, Picks};
pub use unreadable::UnreadableHold;
pub use waiters::{Waiters, Wanted};

use crate::admission;
use crate::id::{LeaseToken, TaskId};
use crate::name::{Namespace, WorkerId};
use crate::queue::index::entries::Entries;
use crate::queue::index::gate::Gates;
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::LaneKey;
use crate::queue::index::leases::LeaseList;
use crate::queue::index::queues::Queues;
use crate::store_clock::StoreNow;
use crate::time::Timestamp;

/// The index of the live tasks of a store.
#[derive(Debug, Default)]
pub struct Index {
    /// The store's own time, which never goes back.
    now: Timestamp,
    /// The wall clock as of the last tick. It may go back.
    wall: Timestamp,
    entries: Entries,
    kinds: Kinds,
    // A tree rather than a heap: a cancelled task is removed at once, not when it becomes due.
    scheduled: BTreeSet<(Timestamp, TaskId)>,
    /// The same for tasks that are due by the wall clock.
    scheduled_wall: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks that have not started and have an `expires_at`.
    expiring: BTreeSet<(Timestamp, TaskId)>,
    queues: Queues,
    gates: Gates,
    leases: LeaseList,
    /// Tasks that are assigned to a worker, which has not started them. A tree: those of one worker are a
    /// range.
    assigned: BTreeSet<(Namespace, WorkerId, TaskId)>,
    /// What each lease call granted that is still running or on hold.
    grants: HashMap<LeaseToken, Granted>,
    wake_hints: WakeHints,
    /// Whether any caller waits for work; if not, no wake-ups are collected.
    pub has_waiters: bool,
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

/// Wake-ups for callers that wait for work, collected until the change is durable.
#[derive(Debug, Default)]
pub struct WakeHints {
    /// Queues from which a task can be leased that could not before; one entry per task.
    arrivals: Vec<Arrival>,
    /// Whether the next task becomes due earlier than waiting callers know.
    earlier_due: bool,
}

/// A task can be leased.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    queue: u32,
    /// The lane, if one task became ready; `None` if the queue was resumed or has a free slot.
    lane: Option<LaneKey>,
}

impl Index {
    /// The store's own time as of the last [`tick`](Index::tick).
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the time: due tasks become ready, and expired ones are set aside.
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
            // The wall clock may have been set back before an `expires_at` that it had passed.
            for (id, is_expired) in changed.collect::<Vec<_>>() {
                match is_expired {
                    true => self.shelve(id),
                    false => self.unshelve(id),
                }
            }
        }
        self.promote_scheduled_tasks();
    }

    /// Moves the tasks that have become due from the scheduled views to their lanes.
    fn promote_scheduled_tasks(&mut self) {
        while let Some(id) = first_due(&mut self.scheduled, self.now) {
            self.make_ready(id);
        }
        while let Some(id) = first_due(&mut self.scheduled_wall, self.wall) {
            self.make_ready(id);
        }
    }

    /// How long until the next task becomes due, if the wall clock does not jump.
    pub fn next_due(&self) -> Option<Duration> {
        let scheduled = self.scheduled.first().map(|(ready_at, _)| ready_at.since(self.now));
        let by_wall = self.scheduled_wall.first().map(|(ready_at, _)| ready_at.since(self.wall));
        scheduled.into_iter().chain(by_wall).min()
    }

    /// Both times as of the last [`tick`](Index::tick).
    pub fn store_now(&self) -> StoreNow {
        StoreNow { steady: self.now, wall: self.wall }
    }

    /// Takes the collected wake-ups; [`Waiters::choose`] finds the callers to wake.
    pub fn take_wake_hints(&mut self) -> WakeHints {
        std::mem::take(&mut self.wake_hints)
    }
}

/// Removes and returns the first task that is due.
fn first_due(waiting: &mut BTreeSet<(Timestamp, TaskId)>, now: Timestamp) -> Option<TaskId> {
    let &(ready_at, id) = waiting.first()?;
    if !admission::is_due(ready_at, now) {
        return None;
    }
    waiting.pop_first();
    Some(id)
}
