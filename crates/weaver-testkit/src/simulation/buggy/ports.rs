//! Every port of the naive store.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::{Error, Result};
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{self, Transition};
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{
    Admin, Ahead, Beat, Counts, Cursor, Directive, Document, DocumentKey, Expect, GroupSummary, JournalPage,
    Order, Page, PurgeRule, Purged, QueueInfo, QueueSettings, ReadFrom, RunnerKey, RunnerRecord, Scope, Seq,
    StreamKey, TaskQuery, Tasks, TrimBefore,
};
use weaver_core::queue::{Committed, Enqueued, Interest, LeaderEpoch, Overdue, Queue, Wake};
use weaver_core::task::{NewTask, TaskRecord, validate_batch};
use weaver_core::time::{Monotonic, Timestamp};

use crate::bed::namespace;
use crate::simulation::buggy::act::{free_keys, restore_keys};
use crate::simulation::buggy::{Bug, ModelStore, State};
use crate::simulation::delegate::delegate_side_ports;
use crate::simulation::scenario::NAMESPACES;

impl ModelStore {
    /// Does something under the lock, and tells whoever waits.
    fn with<T>(&self, act: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let answer = act(&mut self.state.lock(), self.clock.now());
        self.changed.notify_waiters();
        answer
    }

    /// Whether there may be something of interest, and if not, when something becomes due.
    fn look(&self, interest: &Interest) -> (bool, Option<Timestamp>) {
        let (mut state, now) = (self.state.lock(), self.now_for_leases());
        // Whoever waits is woken for what a lease call would take, or it would ask for ever.
        let begun = self.has(Bug::KeyFreedDuringRetry).then(|| free_keys(&mut state.model));
        let answer = found(&state, interest, now);
        begun.into_iter().for_each(|begun| restore_keys(&mut state.model, begun));
        answer
    }
}

/// Whether there may be something of interest, and if not, when something becomes due.
fn found(state: &State, interest: &Interest, now: Timestamp) -> (bool, Option<Timestamp>) {
    match interest {
        Interest::Changes { after } => (state.model.changes().len() as u64 > after.position, None),
        Interest::Cancelled { leases } => {
            let cancelled = |lease: &Lease| {
                state.model.record(&lease.key).is_some_and(|record| lifecycle::is_cancelled(record, lease))
            };
            (leases.iter().any(cancelled), None)
        }
        Interest::Work { namespace, queues, types, fragile } => {
            let scope = Scope::Namespace(namespace.clone());
            let wanted = |record: &&TaskRecord| {
                record.state.is_waiting()
                    && queues.contains(&record.spec.queue)
                    && types.as_ref().is_none_or(|types| types.contains(&record.spec.envelope.task_type))
                    && (*fragile || !record.is_fragile())
            };
            let mut waiting = state.model.within(&scope).filter(wanted);
            let ready = waiting.any(|record| state.model.blocked(record, now).is_none());
            let later = state.model.within(&scope).filter(wanted).map(|record| record.ready_at);
            (ready, later.filter(|ready_at| *ready_at > now).min())
        }
    }
}

#[async_trait]
impl Queue for ModelStore {
    fn limits(&self) -> Limits {
        Limits::default()
    }

    async fn enqueue_batch(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        let tasks = validate_batch(tasks, &self.limits())?;
        Ok(self.with(|state, now| tasks.into_iter().map(|task| Ok(self.put(state, task, now))).collect()))
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        request.validate()?;
        Ok(self.with(|state, now| self.take(state, &request, now)))
    }

    async fn commit(&self, transitions: Vec<Transition>, _: Option<LeaderEpoch>) -> Result<Vec<Committed>> {
        let make = |state: &mut State, now| {
            transitions.into_iter().map(|transition| self.make(state, transition, now)).collect()
        };
        Ok(self.with(make))
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        let extend = |state: &mut State, now| {
            renewals.into_iter().map(|renewal| self.extend(state, renewal, now)).collect()
        };
        Ok(self.with(extend))
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.with(|state, _| leases.iter().for_each(|lease| state.model.confirm_stopped(lease)));
        Ok(())
    }

    async fn overdue(&self, limit: u32) -> Result<Vec<Overdue>> {
        let mut overdue = self.late(&self.state.lock(), self.clock.now());
        overdue.truncate(limit as usize);
        Ok(overdue)
    }

    async fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Result<Changes> {
        let state = self.state.lock();
        let changes = state.model.changes();
        let end = changes.len() as u64;
        let from = after.map_or(end, |cursor| cursor.position);
        let to = end.min(from.saturating_add(limit.into()));
        let shown = (from..to).filter(|position| !self.hides(*position));
        let items =
            shown.filter_map(|position| changes.get(usize::try_from(position).ok()?).cloned()).collect();
        Ok(Changes::Next { items, next: ChangeCursor { incarnation: 1, position: to } })
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is looked at: a change in between is seen.
            changed.as_mut().enable();
            let (ready, due) = self.look(&interest);
            let now = self.clock.monotonic();
            if ready {
                return Ok(Wake::Ready);
            }
            if now >= deadline {
                return Ok(Wake::TimedOut);
            }
            let due = due.map(|due| now.saturating_add(due.since(self.now_for_leases())));
            let until = due.map_or(deadline, |due: Monotonic| due.min(deadline));
            tokio::select! {
                biased;
                () = changed => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
    }
}

#[async_trait]
impl Tasks for ModelStore {
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>> {
        let key = |text: &String| Some(TaskKey::new(namespace.clone(), text.parse().ok()?));
        Ok(ids.iter().map(key).collect())
    }

    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>> {
        let state = self.state.lock();
        Ok(keys.iter().map(|key| state.model.record(key).cloned()).collect())
    }

    async fn list_groups(&self, _: &Namespace, _: Option<Cursor>, _: u32) -> Result<Page<GroupSummary>> {
        Err(not_here("groups"))
    }

    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>> {
        let state = self.state.lock();
        let scope = Scope::Namespace(query.namespace.clone());
        let found = state.model.within(&scope).filter(|record| query.selector.selects(record));
        let mut items: Vec<_> = found.filter(|record| query.filter.keeps(record)).cloned().collect();
        if query.order == Order::NewestFirst {
            items.reverse();
        }
        if items.len() > query.limit as usize {
            return Err(not_here("a second page"));
        }
        Ok(Page { items, next: None, complete: true })
    }

    async fn counts(&self, scope: Scope) -> Result<Counts> {
        let values = self.state.lock().model.counts(&scope);
        Ok(Counts { values, oldest_ready_at: None, as_of: self.clock.now(), exact: true })
    }

    async fn ahead_of(&self, _: &TaskKey, _: u32) -> Result<Option<Ahead>> {
        Err(not_here("places in line"))
    }
}

#[async_trait]
impl Admin for ModelStore {
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>> {
        let mut state = self.state.lock();
        let version = Version(state.settings_version);
        let set = state.model.queues_mut().clone().into_iter().filter(|((place, _), _)| place == namespace);
        let set: Vec<_> = set.collect();
        let info = |((place, name), settings): ((Namespace, QueueName), QueueSettings)| {
            let occupied = state.model.occupied(&place, &name);
            QueueInfo { name, settings, version, occupied }
        };
        Ok(set.into_iter().map(info).collect())
    }

    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        _: Expect,
    ) -> Result<Version> {
        settings.validate()?;
        Ok(self.with(|state, _| {
            state.model.put_queue(namespace.clone(), queue.clone(), settings);
            state.settings_version += 1;
            Version(state.settings_version)
        }))
    }

    async fn purge_tasks(&self, rule: PurgeRule, _: u32) -> Result<Purged> {
        rule.validate()?;
        let count = self.with(|state, now| state.model.purge(&rule, now));
        Ok(Purged { count: u32::try_from(count).unwrap_or(u32::MAX), more: false })
    }

    async fn list_namespaces(&self, _: Option<Cursor>, _: u32) -> Result<Page<Namespace>> {
        Ok(Page {
            items: NAMESPACES.iter().map(|name| namespace(name)).collect(),
            next: None,
            complete: true,
        })
    }
}

/// No world asks for it.
fn not_here(what: &str) -> Error {
    Error::Unavailable { reason: format!("the naive store has no {what}") }
}

delegate_side_ports!(ModelStore, side);
