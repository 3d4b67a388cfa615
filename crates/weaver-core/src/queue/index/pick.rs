//! Choosing tasks to lease: repeatedly the first of the lanes that match the request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::admission;
use crate::id::{LeaseToken, TaskId};
use crate::lease::LeaseRequest;
use crate::name::{Namespace, QueueName, TaskType};
use crate::ports::QueueSettings;
use crate::queue::index::Index;
use crate::queue::index::entries::{Entries, Place};
use crate::queue::index::gate::Gates;
use crate::queue::index::kinds::Kinds;
use crate::queue::index::lane::{LaneKey, ReadyEntry};
use crate::task::{DispatchFilter, Priority};

/// The tasks that a worker may lease, as in a [`LeaseRequest`].
#[derive(Debug, Clone, Copy)]
pub struct LeaseFilter<'a> {
    /// Only tasks of this namespace.
    pub namespace: &'a Namespace,
    /// Only tasks of these queues.
    pub queues: &'a [QueueName],
    /// Only tasks of these types; `None`: of any.
    pub types: Option<&'a [TaskType]>,
    /// Whether fragile tasks match: the request has slots for them.
    pub fragile: bool,
    /// Of which dispatch.
    pub dispatch: DispatchFilter,
}

impl LeaseFilter<'_> {
    pub(super) fn matches(&self, lane: LaneKey, kinds: &Kinds, queue: QueueSettings) -> bool {
        let Some(kind) = kinds.find(lane.kind) else { return false };
        admission::fits_slots(lane.fragile, self.fragile.into())
            && self.dispatch.admits(kind.dispatch, queue.dispatch)
            && self.types.is_none_or(|types| types.contains(&kind.task_type))
    }
}

/// The state of one lease call: the heads of the lanes that match it.
#[derive(Debug)]
pub struct Picks {
    heads: BinaryHeap<Reverse<Head>>,
    /// The lane of the last pick; its next head is read after the store has applied the transition.
    last: Option<Head>,
    slots: u32,
}

/// The first task of a lane; ordered as G7 says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    priority: Priority,
    entry: ReadyEntry,
    queue: u32,
    lane: usize,
}

impl Index {
    /// What an earlier call with the same token was granted; some of it may have ended since.
    pub fn granted(&self, token: &LeaseToken) -> &[TaskId] {
        self.grants.get(token).map_or(&[], |granted| &granted.ids)
    }

    /// Starts a lease call; pass the result to [`pick`](Index::pick).
    pub fn begin_picking(&mut self, request: &LeaseRequest) -> Picks {
        let filter = LeaseFilter {
            namespace: &request.namespace,
            queues: &request.queues,
            types: request.types.as_deref(),
            fragile: request.slots > 0,
            dispatch: request.dispatch(),
        };
        Picks { heads: self.heads(&filter), last: None, slots: request.slots }
    }

    /// An upper bound of the tasks that can be picked, at most `max`.
    pub fn pickable(&self, picks: &Picks, max: usize) -> usize {
        let lane =
            |Reverse(head): &Reverse<Head>| self.queues.get(head.queue).lanes.list()[head.lane].1.len();
        picks.heads.iter().map(lane).sum::<usize>().min(max)
    }

    /// The next task to lease. It is removed from its lane: the caller applies the transition and calls
    /// [`update`](Index::update); if it cannot, the task is set aside until it changes.
    pub fn pick(&mut self, picks: &mut Picks) -> Option<TaskId> {
        let last = picks.last.take();
        let mut same_lane =
            last.and_then(|last| Some(Head { entry: self.first_of(last.queue, last.lane)?, ..last }));
        loop {
            let head = match same_lane.take() {
                // Usually the only lane, or still the first of them.
                Some(next) if picks.heads.peek().is_none_or(|Reverse(other)| next < *other) => next,
                Some(next) => {
                    picks.heads.push(Reverse(next));
                    continue;
                }
                None => picks.heads.pop()?.0,
            };
            let queue = self.queues.get_mut(head.queue);
            let is_full = queue.facts().is_full();
            let (lane_key, lane) = &mut queue.lanes.list_mut()[head.lane];
            let fragile = lane_key.fragile;
            // The queue may have reached its limit, and the slots may be used up, since this head was read.
            if is_full || !admission::fits_slots(fragile, picks.slots) {
                continue;
            }
            lane.pop_first();
            picks.slots = picks.slots.saturating_sub(u32::from(fragile));
            picks.last = Some(head);
            let id = head.entry.id;
            let entry = self.entries.get_mut(id)?;
            entry.place = Place::Nowhere;
            if let Some(key) = entry.serial_key() {
                self.gates.get_or_insert(&queue.namespace, key).elect(None);
            }
            return Some(id);
        }
    }

    /// Whether a lease call with this filter would return any task.
    pub fn has_ready(&mut self, filter: &LeaseFilter<'_>) -> bool {
        !self.heads(filter).is_empty()
    }

    fn heads(&mut self, filter: &LeaseFilter<'_>) -> BinaryHeap<Reverse<Head>> {
        let mut heads = BinaryHeap::new();
        for (turn, name) in filter.queues.iter().enumerate() {
            let Some(queue) = self.queues.number(filter.namespace, name) else { continue };
            if filter.queues[..turn].contains(name) || !self.queues.get(queue).facts().is_open() {
                continue;
            }
            self.queues.get_mut(queue).lanes.forget_empty();
            let settings = self.queues.get(queue).settings;
            for lane in 0..self.queues.get(queue).lanes.list().len() {
                let (key, entries) = &self.queues.get(queue).lanes.list()[lane];
                let key = *key;
                if !entries.is_empty()
                    && filter.matches(key, &self.kinds, settings)
                    && let Some(entry) = self.first_of(queue, lane)
                    && let Some(kind) = self.kinds.find(key.kind)
                {
                    let priority = kind.priority;
                    heads.push(Reverse(Head { priority, entry, queue, lane }));
                }
            }
        }
        heads
    }

    /// The first task of a lane; removes stale entries before it.
    pub(super) fn first_of(&mut self, queue: u32, lane: usize) -> Option<ReadyEntry> {
        let queue = self.queues.get_mut(queue);
        let (_, lane) = &mut queue.lanes.list_mut()[lane];
        loop {
            let entry = lane.first()?;
            if is_current(&self.entries, &self.gates, &queue.namespace, entry) {
                return Some(entry);
            }
            lane.drop_stale_first();
        }
    }
}

/// Whether a lane entry is not stale: the task still waits there, with that due time, and its gate has
/// elected it.
pub(super) fn is_current(entries: &Entries, gates: &Gates, namespace: &Namespace, ready: ReadyEntry) -> bool {
    let Some(entry) = entries.get(ready.id) else { return false };
    entry.place == Place::Ready
        && entry.ready_at == ready.ready_at
        && entry
            .serial_key()
            .is_none_or(|key| gates.get(namespace, key).is_some_and(|gate| gate.is_elected(ready)))
}
