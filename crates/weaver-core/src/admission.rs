//! Admission: whether a waiting task may start now. Every rule is written here, once, and nowhere else.
//!
//! ```text
//! due      not before `ready_at` (G6)           paused  nothing starts in a paused queue
//! expired  no first start after `expires_at`    limit   at most `max_running` slots of a queue
//! fragile  at most `slots` of one lease call    key     one task of a serial key at a time, lowest id first
//! ```
//!
//! The macro `rules!` expands each condition to an inlined function and to its text ([`text::condition`]),
//! from which the SQL of PostgreSQL and the condition expressions of DynamoDB are generated (ADR-0067).
//!
//! So a rule that is edited here changes in every store at once; `cargo xtask mutate admission` shows it.

pub mod text;

use crate::id::TaskId;
use crate::ports::QueueSettings;
use crate::queue::Blocked;
use crate::task::TaskState;
use crate::time::Timestamp;

/// Expands each rule twice: to a function, and to a row of [`RULES`]. The fact after `;` is optional: without
/// it the rule does not hold. A condition may use comparisons, `&&`, `||`, `!`, parentheses, integers, its
/// facts and other rules.
macro_rules! rules {
    ($($(#[$doc:meta])* fn $name:ident($($fact:ident: $type:ty),* $(; $given:ident: $given_type:ty)?) {
        $($condition:tt)+
    })+) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $name($($fact: $type,)* $($given: Option<$given_type>)?) -> bool {
                $(let Some($given) = $given else { return false };)?
                $($condition)+
            }
        )+

        /// The same rules as text.
        const RULES: &[text::Rule] = &[$(text::Rule {
            name: stringify!($name),
            facts: &[$(stringify!($fact),)*],
            given: &[$(stringify!($given))?],
            condition: stringify!($($condition)+),
        },)+];
    };
}

rules! {
    /// Whether it is due (G6).
    fn is_due(ready_at: Timestamp, now: Timestamp) {
        ready_at <= now
    }

    /// Whether no handler was ever started for it.
    fn is_unstarted(executions: u32) {
        executions == 0
    }

    /// Whether its `expires_at` has passed before its first start: then it never starts.
    fn is_expired(unstarted: bool, now: Timestamp; expires_at: Timestamp) {
        unstarted && expires_at <= now
    }

    /// Whether a waiting task may start as far as time is concerned, in a store with one clock.
    fn is_startable(ready_at: Timestamp, unstarted: bool, now: Timestamp, expires_at: Option<Timestamp>) {
        is_due(ready_at, now) && !is_expired(unstarted, now, expires_at)
    }

    /// Whether the queue is paused: none of its tasks is leased or assigned.
    fn is_paused(paused: bool) {
        paused
    }

    /// Whether the queue has reached its concurrency limit.
    fn is_full(occupied: u64; max_running: u64) {
        occupied >= max_running
    }

    /// Whether another task of a queue may start.
    fn is_open(paused: bool, occupied: u64, max_running: Option<u64>) {
        !is_paused(paused) && !is_full(occupied, max_running)
    }

    /// Whether a task with this dispatch of its own (0: none), in a queue with that one, has the wanted
    /// dispatch (0: any). The numbers are those of [`Dispatch`](crate::task::Dispatch).
    fn has_dispatch(own: u8, of_queue: u8, wanted: u8) {
        wanted == 0 || own == wanted || (own == 0 && of_queue == wanted)
    }

    /// Whether its worker was lost before, or one loss would be one too many. Such a task starts at once and
    /// is never buffered with others, so that one that crashes its worker takes no other task with it.
    fn is_fragile(losses: u32, max_losses: u32) {
        losses > 0 || max_losses == 0
    }

    /// Whether a lease call with so many slots left may get it.
    fn fits_slots(fragile: bool, slots: u32) {
        !fragile || slots > 0
    }

    /// Whether a live task has begun, and so holds its serial key: from its first start or assignment to its
    /// end, retries included.
    fn has_begun(unstarted: bool, waiting: bool) {
        !unstarted || !waiting
    }

    /// Whether another live task of the same serial key starts before this one: the one that has begun, or
    /// else a lower id that may start.
    fn goes_first(other_id: TaskId, other_begun: bool, other_startable: bool, id: TaskId, begun: bool) {
        other_begun || (!begun && other_startable && other_id < id)
    }
}

/// The latest `expires_at` that counts as passed: the upper bound of a store's search for expired tasks.
pub fn latest_expired(now: Timestamp) -> Option<Timestamp> {
    let step = std::time::Duration::from_micros(1);
    let around = [now.saturating_add(step), now, now.saturating_sub(step)];
    around.into_iter().find(|at| is_expired(true, now, Some(*at)))
}

/// Which task of a serial key may start, given the one that holds the key and the lowest id that may start:
/// [`goes_first`] for a store that knows both.
pub fn elected(holder: Option<TaskId>, first: Option<TaskId>) -> Option<TaskId> {
    match (holder, first) {
        (Some(holder), Some(first)) if !goes_first(holder, true, false, first, false) => Some(first),
        _ => holder.or(first),
    }
}

/// Whether a task takes one of its queue's slots: assigned, orphaned, running, or under a cancellation hold.
pub const fn occupies_slot(state: TaskState, has_lease: bool) -> bool {
    match state {
        TaskState::Assigned | TaskState::Orphaned | TaskState::Running => true,
        TaskState::Cancelled => has_lease,
        _ => false,
    }
}

/// The facts about a queue that admission needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueFacts {
    /// A queue whose settings cannot be read counts as paused.
    pub settings: QueueSettings,
    /// Slots taken, as [`occupies_slot`] counts them.
    pub occupied: u64,
}

impl QueueFacts {
    /// [`is_full`] for this queue; never without a limit.
    #[inline]
    pub fn is_full(self) -> bool {
        is_full(self.occupied, self.settings.max_running.map(u64::from))
    }

    /// [`is_open`] for this queue: neither paused nor full.
    #[inline]
    pub fn is_open(self) -> bool {
        is_open(self.settings.paused, self.occupied, self.settings.max_running.map(u64::from))
    }

    /// The same with `count` more slots taken.
    #[must_use]
    pub fn with_more(self, count: u64) -> Self {
        Self { occupied: self.occupied.saturating_add(count), ..self }
    }
}

/// Why a waiting task cannot start now; `None` if it can. `is_gated` says whether another task of its serial
/// key starts first; it is called last, because it costs stores a query.
pub fn blocked(is_startable: bool, queue: QueueFacts, is_gated: impl FnOnce() -> bool) -> Option<Blocked> {
    if !is_startable {
        Some(Blocked::NotDue)
    } else if is_paused(queue.settings.paused) {
        Some(Blocked::Paused)
    } else if queue.is_full() {
        Some(Blocked::LimitReached)
    } else if is_gated() {
        Some(Blocked::KeyHeld)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
