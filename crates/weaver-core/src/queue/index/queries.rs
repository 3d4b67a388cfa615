//! Queries over the views: counts, positions, overdue tasks, what blocks a task; and the settings of queues.

use crate::admission;
use crate::id::{TaskId, Version};
use crate::lifecycle::OverdueReason;
use crate::name::{Namespace, QueueName, SerialKey};
use crate::ports::{Ahead, Counts, Expect, QueueInfo, QueueSettings, Scope, StateCounts};
use crate::queue::Blocked;
use crate::queue::index::entries::Place;
use crate::queue::index::lane::ReadyEntry;
use crate::queue::index::moves::is_expired;
use crate::queue::index::pick::is_current;
use crate::queue::index::{Arrival, Index};
use crate::task::TaskState;
use crate::time::Timestamp;

impl Index {
    /// Whether a task is live: it has not ended, or it has a cancellation hold.
    pub fn contains(&self, id: TaskId) -> bool {
        self.entries.get(id).is_some()
    }

    /// Tasks with an expired lease, an expired hold or a passed `expires_at`.
    pub fn overdue(&self) -> impl Iterator<Item = (TaskId, OverdueReason)> {
        let leases = self.leases.overdue(self.now).filter_map(|id| {
            let running = self.entries.get(id)?.state == TaskState::Running;
            Some((id, if running { OverdueReason::Lease } else { OverdueReason::Hold }))
        });
        let expired =
            self.expiring.iter().take_while(|(at, _)| admission::is_expired(true, self.wall, Some(*at)));
        leases.chain(expired.map(|(_, id)| (*id, OverdueReason::ExpiresAt)))
    }

    /// Why a waiting task cannot start right now: the same rule that leasing applies to the heads of lanes.
    pub fn blocked(&self, id: TaskId) -> Option<Blocked> {
        let entry = self.entries.get(id)?;
        let queue = self.queues.get(entry.queue);
        let waits_for_its_time = matches!(entry.place, Place::Scheduled | Place::ScheduledWall);
        let is_startable = !waits_for_its_time && !is_expired(&self.expiring, self.wall, id, entry);
        admission::blocked(is_startable, queue.facts(), || {
            let candidate = |key| self.gates.get(&queue.namespace, key).and_then(|gate| gate.candidate());
            entry.serial_key().is_some_and(|key| candidate(key) != Some(id))
        })
    }

    /// How many tasks would be leased before this one, counting up to `cap`; `None` if it does not wait.
    pub fn ahead_of(&self, id: TaskId, cap: u32) -> Option<Ahead> {
        let entry = self.entries.get(id).filter(|entry| entry.state.is_waiting())?;
        let queue = self.queues.get(entry.queue);
        let ready = ReadyEntry { ready_at: entry.ready_at, id };
        let priority = self.kinds.find(entry.kind)?.priority;
        let lanes = queue.lanes.list().iter();
        let lanes = lanes.filter_map(|(key, lane)| Some((self.kinds.find(key.kind)?.priority, lane)));
        let last = ReadyEntry { ready_at: Timestamp::MAX, id: TaskId(u64::MAX) };
        let before = lanes.filter(|(other, _)| *other <= priority).flat_map(|(other, lane)| {
            let until = if other < priority { last } else { ready };
            lane.before(until)
        });
        let current = before.filter(|other| is_current(&self.entries, &self.gates, &queue.namespace, *other));
        let in_queue = current.take(cap as usize).count();
        let gate = entry.serial_key().and_then(|serial| self.gates.get(&queue.namespace, serial));
        // A lower bound: tasks of its key that start first may also be counted in the queue.
        let count = in_queue.max(gate.map_or(0, |gate| gate.due_before(id))).min(cap as usize);
        Some(Ahead { count: count as u32, capped: count == cap as usize })
    }

    /// The live tasks with a serial key, by ascending id.
    pub fn members(&self, namespace: &Namespace, key: &SerialKey) -> impl DoubleEndedIterator<Item = TaskId> {
        let members = self.gates.get(namespace, key).map(|gate| gate.members.iter().copied());
        members.into_iter().flatten()
    }

    /// The live tasks of a namespace in a state, with ids in a range, by ascending id.
    pub fn in_state(
        &self,
        namespace: &Namespace,
        state: TaskState,
        from: TaskId,
        to: TaskId,
    ) -> impl DoubleEndedIterator<Item = TaskId> {
        let mut tasks = Vec::new();
        // Most stores have few queues: comparing names once per queue beats comparing them for every task.
        for (number, _) in self.queues.of_namespace(namespace) {
            tasks.push(number);
        }
        tasks.sort_unstable();
        let entries = self.entries.in_state(state, from, to);
        entries.filter(move |(_, entry)| tasks.binary_search(&entry.queue).is_ok()).map(|(id, _)| id)
    }

    /// Counts by state. They are maintained, so the cost depends on the number of queues, not of records.
    pub fn counts(&mut self, scope: &Scope) -> Counts {
        let numbers: Vec<u32> = match scope {
            Scope::Namespace(namespace) => {
                self.queues.of_namespace(namespace).map(|(number, _)| number).collect()
            }
            Scope::Queue(namespace, queue) => self.queues.number(namespace, queue).into_iter().collect(),
        };
        let mut values = StateCounts::default();
        let mut oldest: Option<ReadyEntry> = None;
        for number in numbers {
            values += self.queues.get(number).counts;
            for lane in 0..self.queues.get(number).lanes.list().len() {
                let first = self.first_of(number, lane);
                oldest = [oldest, first].into_iter().flatten().min();
            }
        }
        Counts { values, oldest_ready_at: oldest.map(|entry| entry.ready_at), as_of: self.now, exact: true }
    }

    /// The queues of a namespace that have tasks or settings, by name.
    pub fn list_queues(&self, namespace: &Namespace) -> Vec<QueueInfo> {
        let queues = self.queues.of_namespace(namespace).map(|(_, queue)| queue);
        let info = queues.map(|queue| QueueInfo {
            name: queue.name.clone(),
            settings: queue.settings,
            version: queue.version,
            occupied: queue.occupied,
        });
        info.collect()
    }

    /// The namespaces that have a queue with tasks or settings.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.queues.namespaces()
    }

    /// The settings of a queue, their version, and its counts by state, finished tasks included; `None` if it
    /// has neither tasks nor settings.
    pub fn queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
    ) -> Option<(QueueSettings, Version, StateCounts)> {
        let queue = self.queues.get(self.queues.number(namespace, queue)?);
        Some((queue.settings, queue.version, queue.counts))
    }

    /// The namespace of a live task; `None` if there is no such task.
    pub fn namespace_of(&self, id: TaskId) -> Option<&Namespace> {
        Some(&self.queues.get(self.entries.get(id)?.queue).namespace)
    }

    /// Changes the settings of a queue, if the caller's condition holds.
    pub fn put_queue(
        &mut self,
        namespace: &Namespace,
        name: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> crate::error::Result<Version> {
        settings.validate()?;
        let number = self.queues.number(namespace, name);
        let found =
            number.map(|number| self.queues.get(number).version).filter(|version| *version > Version(0));
        if !expect.is_met(found) {
            return Err(expect.conflict(format!("queue {namespace}/{name}"), found));
        }
        let number = self.queues.number_or_new(namespace, name);
        let queue = self.queues.get_mut(number);
        queue.settings = settings;
        queue.version = queue.version.next();
        let version = queue.version;
        if self.has_waiters && queue.facts().is_open() {
            self.wake_hints.arrivals.push(Arrival { queue: number, lane: None });
            // More than one task may have become ready: wake all waiters.
            self.wake_hints.earlier_due = true;
        }
        Ok(version)
    }

    /// Restores a queue read back from disk: its settings, and the counts of its finished tasks.
    pub fn restore_queue(
        &mut self,
        namespace: &Namespace,
        name: &QueueName,
        settings: QueueSettings,
        version: Version,
        counts: &StateCounts,
    ) {
        let number = self.queues.number_or_new(namespace, name);
        let queue = self.queues.get_mut(number);
        (queue.settings, queue.version) = (settings, version);
        // Live tasks are counted when they are inserted.
        for (state, count) in counts.iter().filter(|(state, _)| state.is_terminal()) {
            queue.counts.add_many(state, count);
        }
    }

    /// Counts a finished task that was added.
    pub fn remember(&mut self, namespace: &Namespace, queue: &QueueName, state: TaskState) {
        let number = self.queues.number_or_new(namespace, queue);
        self.queues.get_mut(number).counts.add(state);
    }

    /// Stops counting a finished task that was purged.
    pub fn forget(&mut self, namespace: &Namespace, queue: &QueueName, state: TaskState) {
        if let Some(number) = self.queues.number(namespace, queue) {
            self.queues.get_mut(number).counts.remove(state);
            self.queues.forget_if_unused(number);
        }
    }
}
