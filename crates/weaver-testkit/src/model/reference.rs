//! The naive store: every query is a full scan. It has no index, so none can be out of date.

use std::collections::BTreeMap;

use weaver_core::admission::{self, QueueFacts};
use weaver_core::event::Change;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{self, Command, Grant, OverdueReason, Transition};
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::ports::{AssignableRequest, PurgeRule, QueueSettings, Scope, StateCounts};
use weaver_core::queue::{Blocked, Committed, Enqueued, Overdue};
use weaver_core::task::{DispatchFilter, TaskRecord, TaskState, UniqueKey, ValidTask};
use weaver_core::time::Timestamp;

/// Result of a lease call.
#[derive(Debug, Clone, PartialEq)]
pub struct Granted {
    /// Whether the token was used before: then it is the rest of the first answer, in any order.
    pub repeated: bool,
    /// Granted leases with their records.
    pub leased: Vec<Leased>,
}

/// The model. Every call passes the time, and the ids come from the store it is compared with.
#[derive(Debug, Default)]
pub struct Reference {
    records: BTreeMap<TaskKey, TaskRecord>,
    queues: BTreeMap<(Namespace, QueueName), QueueSettings>,
    /// Idempotency keys outlive a purge of their task (G8). They expire after days; no walk lasts that long.
    unique: BTreeMap<(Namespace, UniqueKey), TaskKey>,
    changes: Vec<Change>,
}

impl Reference {
    /// Adds new tasks with the ids of the store, and checks the rest of its answer.
    pub fn enqueue(
        &mut self,
        tasks: Vec<ValidTask>,
        answers: &[Enqueued],
        now: Timestamp,
    ) -> Result<(), String> {
        if tasks.len() != answers.len() {
            return Err(format!("{} tasks were enqueued, {} answers came", tasks.len(), answers.len()));
        }
        for (index, (task, answer)) in tasks.into_iter().zip(answers).enumerate() {
            let names: Vec<_> = task.spec.unique_keys().map(|name| (task.namespace.clone(), name)).collect();
            if let Some(first) = names.iter().find_map(|name| self.unique.get(name)) {
                let expected = Enqueued { key: first.clone(), existing: true };
                if *answer != expected {
                    return Err(format!("member {index}: the store answers {answer:?}, not {expected:?}"));
                }
                continue;
            }
            let newest = self.records.keys().rev().find(|key| key.namespace == task.namespace);
            let follows = newest.is_none_or(|key| key.id < answer.key.id);
            if answer.existing || answer.key.namespace != task.namespace || !follows {
                return Err(format!("member {index} is new and comes after {newest:?}, not {answer:?}"));
            }
            let record = lifecycle::admit(task, answer.key.id, now).map_err(|error| error.to_string())?;
            self.unique.extend(names.into_iter().map(|name| (name, record.key.clone())));
            self.changes.push(change(&record));
            self.records.insert(record.key.clone(), record);
        }
        Ok(())
    }

    /// Leases by repeatedly scanning all records for the first eligible one.
    pub fn lease(&mut self, request: &LeaseRequest, now: Timestamp) -> Granted {
        let before = self.leased_under(request.token);
        if !before.is_empty() {
            return Granted { repeated: true, leased: before };
        }
        let mut leased = Vec::new();
        let mut slots = request.slots;
        while leased.len() < request.max as usize {
            let best = self
                .records
                .values()
                .filter(|record| self.wants(request, record))
                .filter(|record| admission::fits_slots(record.is_fragile(), slots))
                .filter(|record| self.blocked(record, now).is_none())
                .min_by_key(|record| (record.spec.priority, record.ready_at, record.key.id));
            let Some(best) = best else { break };
            slots = slots.saturating_sub(u32::from(best.is_fragile()));
            let grant = Grant { worker: request.worker.clone(), token: request.token, ttl: request.ttl };
            let transition = lifecycle::decide(best, Command::Lease(grant), now)
                .expect("what is not blocked can be leased");
            let record = self.apply(transition, now);
            let lease = record.current_lease().expect("a leased task has a lease");
            leased.push(Leased { lease, record: record.clone() });
        }
        Granted { repeated: false, leased }
    }

    fn wants(&self, request: &LeaseRequest, record: &TaskRecord) -> bool {
        record.state.is_waiting()
            && record.key.namespace == request.namespace
            && request.queues.contains(&record.spec.queue)
            && is_of_type(request.types.as_deref(), record)
            && self.has_dispatch(request.dispatch(), record)
    }

    fn has_dispatch(&self, filter: DispatchFilter, record: &TaskRecord) -> bool {
        let settings = self.settings(&record.key.namespace, &record.spec.queue);
        filter.admits(record.spec.dispatch(), settings.dispatch)
    }

    /// The due tasks that a leader assigns, in the order of G7; of each queue no more than it has slots for.
    pub fn assignable(&self, request: &AssignableRequest, now: Timestamp) -> Vec<TaskRecord> {
        let order = |record: &&TaskRecord| (record.spec.priority, record.ready_at, record.key.id);
        let mut found: Vec<&TaskRecord> = Vec::new();
        for queue in &request.queues {
            let mut of_queue: Vec<_> = self
                .records
                .values()
                .filter(|record| record.key.namespace == request.namespace && record.spec.queue == *queue)
                .filter(|record| record.state.is_waiting() && is_of_type(request.types.as_deref(), record))
                .filter(|record| self.has_dispatch(DispatchFilter::Assigned, record))
                .filter(|record| self.blocked(record, now).is_none())
                .collect();
            of_queue.sort_by_key(order);
            let limit = self.settings(&request.namespace, queue).max_running.map_or(u64::MAX, u64::from);
            let free = limit.saturating_sub(self.occupied(&request.namespace, queue));
            of_queue.truncate(usize::try_from(free).unwrap_or(usize::MAX));
            found.extend(of_queue);
        }
        found.sort_by_key(order);
        found.truncate(request.max as usize);
        found.into_iter().cloned().collect()
    }

    /// The tasks that are assigned or orphaned, longest first.
    pub fn assignments(&self) -> Vec<TaskRecord> {
        let is_held =
            |record: &&TaskRecord| matches!(record.state, TaskState::Assigned | TaskState::Orphaned);
        let mut found: Vec<_> = self.records.values().filter(is_held).cloned().collect();
        found.sort_by_key(|record| (record.updated_at, record.key.id));
        found
    }

    fn leased_under(&self, token: LeaseToken) -> Vec<Leased> {
        let leased = |record: &TaskRecord| {
            let lease = record.current_lease().filter(|lease| lease.token == token)?;
            Some(Leased { lease, record: record.clone() })
        };
        self.records.values().filter_map(leased).collect()
    }

    /// Why a waiting task cannot be leased right now.
    pub fn blocked(&self, record: &TaskRecord, now: Timestamp) -> Option<Blocked> {
        let namespace = &record.key.namespace;
        let queue = &record.spec.queue;
        let facts = QueueFacts {
            settings: self.settings(namespace, queue),
            occupied: self.occupied(namespace, queue),
        };
        admission::blocked(record.is_startable(now.into()), facts, || self.is_gated(record, now))
    }

    /// Of the due tasks of one serial key only the lowest id is eligible; once one holds the key, only it.
    fn is_gated(&self, record: &TaskRecord, now: Timestamp) -> bool {
        let same_key = |other: &&TaskRecord| {
            other.key.namespace == record.key.namespace
                && other.spec.serial_key == record.spec.serial_key
                && other.key != record.key
        };
        let goes_first = |other: &TaskRecord| {
            let is_startable = other.is_startable(now.into());
            let (id, begun) = (record.key.id, record.holds_key());
            admission::goes_first(other.key.id, other.holds_key(), is_startable, id, begun)
        };
        record.spec.serial_key.is_some() && self.records.values().filter(same_key).any(goes_first)
    }

    /// Applies a transition if the record has the expected version.
    pub fn commit(&mut self, transition: Transition, now: Timestamp) -> Committed {
        let Some(record) = self.records.get(&transition.key) else { return Committed::Stale };
        if !transition.fits(record) {
            let repeated = transition.is_already_applied(record);
            return if repeated { Committed::AlreadyApplied } else { Committed::Stale };
        }
        match self.blocked(record, now) {
            Some(why) if transition.admits() => Committed::Blocked(why),
            _ => Committed::Applied { version: self.apply(transition, now).version },
        }
    }

    fn apply(&mut self, transition: Transition, now: Timestamp) -> &TaskRecord {
        let record = self.records.get_mut(&transition.key).expect("the record was read just now");
        transition.apply(record, now);
        self.changes.push(change(record));
        record
    }

    /// Renews a lease if it is valid.
    pub fn renew(&mut self, renewal: Renewal, now: Timestamp) -> Renewed {
        match self.records.get_mut(&renewal.lease.key) {
            Some(record) => lifecycle::renew(record, renewal, now),
            None => Renewed::Lost,
        }
    }

    /// Ends the cancellation hold of this lease.
    pub fn confirm_stopped(&mut self, lease: &Lease) {
        if let Some(record) = self.records.get_mut(&lease.key) {
            lifecycle::confirm_stopped(record, lease);
        }
    }

    /// Everything that is overdue, by key.
    pub fn overdue(&self, now: Timestamp) -> Vec<Overdue> {
        let why = |record: &TaskRecord| {
            let ran_out = record.lease.as_ref().is_some_and(|held| held.expires_at <= now);
            match record.state {
                TaskState::Running if ran_out => Some(OverdueReason::Lease),
                TaskState::Cancelled if ran_out => Some(OverdueReason::Hold),
                _ => record.is_expired(now).then_some(OverdueReason::ExpiresAt),
            }
        };
        self.records
            .values()
            .filter_map(|record| Some(Overdue { reason: why(record)?, record: record.clone() }))
            .collect()
    }

    /// Sets the settings of a queue.
    pub fn put_queue(&mut self, namespace: Namespace, queue: QueueName, settings: QueueSettings) {
        self.queues.insert((namespace, queue), settings);
    }

    /// Purges finished tasks; returns their number.
    pub fn purge(&mut self, rule: &PurgeRule, now: Timestamp) -> usize {
        let before = self.records.len();
        let goes = |record: &TaskRecord| {
            let ended = record.finished_at.is_some_and(|at| at.saturating_add(rule.finished_for) <= now);
            ended
                && record.hold().is_none()
                && rule.namespace.as_ref().is_none_or(|namespace| record.key.namespace == *namespace)
                && rule.queue.as_ref().is_none_or(|queue| record.spec.queue == *queue)
                && rule.state.is_none_or(|state| record.state == state)
        };
        self.records.retain(|_, record| !goes(record));
        before - self.records.len()
    }

    /// The settings of a queue.
    pub fn settings(&self, namespace: &Namespace, queue: &QueueName) -> QueueSettings {
        self.queues.get(&(namespace.clone(), queue.clone())).copied().unwrap_or_default()
    }

    /// How many slots of a queue are taken.
    pub fn occupied(&self, namespace: &Namespace, queue: &QueueName) -> u64 {
        let scope = Scope::Queue(namespace.clone(), queue.clone());
        self.within(&scope).filter(|record| record.occupies_slot()).count() as u64
    }

    /// How many tasks are in each state.
    pub fn counts(&self, scope: &Scope) -> StateCounts {
        let mut counts = StateCounts::default();
        self.within(scope).for_each(|record| counts.add(record.state));
        counts
    }

    /// The records of a namespace or queue, by id.
    pub fn within<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a TaskRecord> {
        self.records.values().filter(move |record| match scope {
            Scope::Namespace(namespace) => record.key.namespace == *namespace,
            Scope::Queue(namespace, queue) => {
                record.key.namespace == *namespace && record.spec.queue == *queue
            }
        })
    }

    /// Looks a record up by key.
    pub fn record(&self, key: &TaskKey) -> Option<&TaskRecord> {
        self.records.get(key)
    }

    /// The existing task of one of these idempotency keys.
    pub(crate) fn found(&self, namespace: &Namespace, keys: &[UniqueKey]) -> Option<TaskKey> {
        keys.iter().find_map(|key| self.unique.get(&(namespace.clone(), key.clone()))).cloned()
    }

    /// All records, mutable for deliberately buggy stores.
    pub(crate) fn records_mut(&mut self) -> &mut BTreeMap<TaskKey, TaskRecord> {
        &mut self.records
    }

    /// All queue settings, mutable for deliberately buggy stores.
    pub(crate) fn queues_mut(&mut self) -> &mut BTreeMap<(Namespace, QueueName), QueueSettings> {
        &mut self.queues
    }

    /// Every transition so far, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }
}

fn is_of_type(types: Option<&[TaskType]>, record: &TaskRecord) -> bool {
    types.is_none_or(|types| types.contains(&record.spec.envelope.task_type))
}

fn change(record: &TaskRecord) -> Change {
    let at = record.updated_at;
    let key = record.key.clone();
    Change { key, version: record.version, state: record.state, at }
}
