//! Leasing: the first of the lanes the worker may take from, again and again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Invalid, Problem};
use crate::id::TaskId;
use crate::lease::{LeaseRequest, Leased};
use crate::lifecycle::{self, Command, Grant};
use crate::name::{Namespace, QueueName, TaskType};
use crate::queue::memory::gate::Gates;
use crate::queue::memory::lane::{LaneRef, ReadyEntry};
use crate::queue::memory::records::{Place, Records};
use crate::queue::memory::state::InMemoryQueueState;
use crate::task::{Priority, TaskRecord};

/// The first task of a lane; ordered as G7 says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    priority: Priority,
    entry: ReadyEntry,
    queue: u32,
    lane: usize,
}

/// Which lanes a worker may take from.
pub(super) struct Taste<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) queues: &'a [QueueName],
    pub(super) types: Option<&'a [TaskType]>,
    pub(super) fragile: bool,
}

impl Taste<'_> {
    pub(super) fn likes(&self, lane: LaneRef<'_>) -> bool {
        (self.fragile || !lane.fragile) && self.types.is_none_or(|types| types.contains(lane.task_type))
    }
}

impl InMemoryQueueState {
    /// Takes due tasks for a worker.
    pub(super) fn lease(&mut self, request: &LeaseRequest) -> Result<Vec<Leased>, Invalid> {
        let granted = self.granted_before(request)?;
        if !granted.is_empty() {
            return Ok(granted);
        }
        let mut heads = self.heads(&Taste {
            namespace: &request.namespace,
            queues: &request.queues,
            types: request.types.as_deref(),
            fragile: request.slots > 0,
        });
        let mut taken = Vec::with_capacity(self.leasable(&heads, request.max as usize));
        let mut slots = request.slots;
        while taken.len() < request.max as usize
            && let Some(Reverse(head)) = heads.pop()
        {
            let queue = self.queues.get_mut(head.queue);
            let (lane_key, lane) = &mut queue.lanes.list_mut()[head.lane];
            let fragile = lane_key.fragile;
            // The queue may have filled up, and the slots run out, since this head was looked at.
            if (queue.settings.max_running.is_some_and(|max| queue.occupied >= max.into()))
                || (fragile && slots == 0)
            {
                continue;
            }
            lane.pop_first();
            if let Some(leased) = self.take(head.entry.id, request) {
                slots -= u32::from(fragile);
                taken.push(leased);
            }
            if let Some(entry) = self.first_of(head.queue, head.lane) {
                heads.push(Reverse(Head { entry, ..head }));
            }
        }
        Ok(taken)
    }

    /// At most so many of the lanes' tasks can be taken.
    fn leasable(&self, heads: &BinaryHeap<Reverse<Head>>, max: usize) -> usize {
        let lane =
            |Reverse(head): &Reverse<Head>| self.queues.get(head.queue).lanes.list()[head.lane].1.len();
        heads.iter().map(lane).sum::<usize>().min(max)
    }

    /// Whether a worker with this taste would get anything.
    pub(super) fn has_ready(&mut self, taste: &Taste<'_>) -> bool {
        !self.heads(taste).is_empty()
    }

    /// What an earlier call with the same token was granted and still holds.
    fn granted_before(&self, request: &LeaseRequest) -> Result<Vec<Leased>, Invalid> {
        let Some(granted) = self.grants.get(&request.token) else { return Ok(Vec::new()) };
        let records = granted.ids.iter().filter_map(|id| Some(&self.records.get(*id)?.record));
        let mut leased = Vec::new();
        for record in records {
            let Some(held) = record.lease.as_ref().filter(|held| held.token == request.token) else {
                continue;
            };
            if held.worker != request.worker || record.key.namespace != request.namespace {
                return Err(Invalid::new("token", Problem::TokenTaken));
            }
            if let Some(lease) = record.current_lease() {
                leased.push(Leased { lease, record: record.clone() });
            }
        }
        Ok(leased)
    }

    fn heads(&mut self, taste: &Taste<'_>) -> BinaryHeap<Reverse<Head>> {
        let mut heads = BinaryHeap::new();
        for (turn, name) in taste.queues.iter().enumerate() {
            let Some(queue) = self.queues.number(taste.namespace, name) else { continue };
            if taste.queues[..turn].contains(name) || !self.queues.get(queue).is_open() {
                continue;
            }
            self.queues.get_mut(queue).lanes.forget_empty();
            for lane in 0..self.queues.get(queue).lanes.list().len() {
                let key = &self.queues.get(queue).lanes.list()[lane].0;
                let priority = key.priority;
                if taste.likes(key.as_ref())
                    && let Some(entry) = self.first_of(queue, lane)
                {
                    heads.push(Reverse(Head { priority, entry, queue, lane }));
                }
            }
        }
        heads
    }

    /// The first task of a lane; drops what is stale before it.
    pub(super) fn first_of(&mut self, queue: u32, lane: usize) -> Option<ReadyEntry> {
        let (_, lane) = &mut self.queues.get_mut(queue).lanes.list_mut()[lane];
        loop {
            let entry = lane.first()?;
            if is_true(&self.records, &self.gates, entry) {
                return Some(entry);
            }
            lane.drop_stale_first();
        }
    }

    /// Starts a task whose lane entry was just removed.
    fn take(&mut self, id: TaskId, request: &LeaseRequest) -> Option<Leased> {
        let slot = self.records.get_mut(id)?;
        slot.place = Place::Nowhere;
        if slot.asks.gate
            && let Some(key) = &slot.record.spec.serial_key
        {
            self.gates.get_or_insert(&slot.record.key.namespace, key).elect(None);
        }
        let grant = Grant { worker: request.worker.clone(), token: request.token, ttl: request.ttl };
        let transition = lifecycle::decide(&slot.record, Command::Lease(grant), self.now).ok()?;
        self.apply(id, transition);
        let record = self.records.get(id)?.record.clone();
        Some(Leased { lease: record.current_lease()?, record })
    }
}

/// Whether a lane entry says the truth: the task still waits there, since that time, and its gate has elected it.
pub(super) fn is_true(records: &Records, gates: &Gates, entry: ReadyEntry) -> bool {
    let Some(slot) = records.get(entry.id) else { return false };
    let record = &slot.record;
    slot.place == Place::Ready
        && record.ready_at == entry.ready_at
        && (!slot.asks.gate || is_elected(gates, record, entry))
}

fn is_elected(gates: &Gates, record: &TaskRecord, entry: ReadyEntry) -> bool {
    let key = record.spec.serial_key.as_ref();
    let gate = key.and_then(|key| gates.get(&record.key.namespace, key));
    gate.is_some_and(|gate| gate.is_elected(entry))
}
