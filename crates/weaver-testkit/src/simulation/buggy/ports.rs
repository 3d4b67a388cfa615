//! Ports of the naive store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use weaver_core::error::{Error, Result};
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::Lease;
use weaver_core::lifecycle;
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::{Counts, Order, Page, Purged, QueueInfo, QueueSettings, Scope, Store, TaskQuery};
use weaver_core::queue::{CommittedAndLeased, Interest, Wake};
use weaver_core::task::TaskState;
use weaver_core::task::{TaskRecord, validate_batch};
use weaver_core::time::{Monotonic, Timestamp};

use crate::harness::namespace;
use crate::intercept::{Answer, Call, Intercept};
use crate::simulation::buggy::act::{free_keys, restore_keys};
use crate::simulation::buggy::{Bug, Model, State};
use crate::simulation::scenario::NAMESPACES;

#[async_trait]
impl Intercept for Model {
    fn limits(&self, _: &Arc<dyn Store>) -> Limits {
        Limits::default()
    }

    async fn around(&self, call: Call, store: &Arc<dyn Store>) -> Result<Answer> {
        match call {
            Call::EnqueueBatch { tasks } => {
                let tasks = validate_batch(tasks, &Limits::default())?;
                let put = |state: &mut State, now| {
                    tasks.into_iter().map(|task| Ok(self.put(state, task, now))).collect()
                };
                Ok(Answer::EnqueueBatch(self.with(put)))
            }
            Call::Lease { request } => {
                request.validate()?;
                Ok(Answer::Lease(self.with(|state, now| self.take(state, &request, now))))
            }
            Call::Commit { transitions, .. } => {
                let make = |state: &mut State, now| {
                    transitions.into_iter().map(|transition| self.make(state, transition, now)).collect()
                };
                Ok(Answer::Commit(self.with(make)))
            }
            Call::CommitAndLease { transitions, request } => {
                let Answer::Commit(committed) =
                    self.around(Call::Commit { transitions, leader: None }, store).await?
                else {
                    unreachable!("the answer has the variant of the call")
                };
                let leased = match self.around(Call::Lease { request }, store).await {
                    Ok(Answer::Lease(leased)) => Ok(leased),
                    Ok(_) => unreachable!("the answer has the variant of the call"),
                    Err(error) => Err(error),
                };
                Ok(Answer::CommitAndLease(CommittedAndLeased { committed, leased }))
            }
            Call::Renew { renewals } => {
                let extend = |state: &mut State, now| {
                    renewals.into_iter().map(|renewal| self.extend(state, renewal, now)).collect()
                };
                Ok(Answer::Renew(self.with(extend)))
            }
            Call::ConfirmStopped { leases } => {
                self.with(|state, _| leases.iter().for_each(|lease| state.model.confirm_stopped(lease)));
                Ok(Answer::ConfirmStopped(()))
            }
            Call::Overdue { limit } => {
                let mut overdue = self.late(&self.state.lock(), self.clock.now());
                overdue.truncate(limit as usize);
                Ok(Answer::Overdue(overdue))
            }
            Call::Changes { after, limit } => Ok(Answer::Changes(self.changes(after, limit))),
            Call::Wait { interest, timeout } => Ok(Answer::Wait(self.wait(&interest, timeout).await)),
            call => match self.read_or_manage(call) {
                Ok(answer) => answer,
                Err(side) => side.send(store.as_ref()).await,
            },
        }
    }
}

impl Model {
    /// Answers calls about tasks and queues, and returns other calls.
    fn read_or_manage(&self, call: Call) -> std::result::Result<Result<Answer>, Box<Call>> {
        Ok(match call {
            Call::Resolve { namespace, ids } => {
                let key = |text: &String| Some(TaskKey::new(namespace.clone(), text.parse().ok()?));
                Ok(Answer::Resolve(ids.iter().map(key).collect()))
            }
            Call::GetTasks { keys } => {
                let state = self.state.lock();
                Ok(Answer::GetTasks(keys.iter().map(|key| state.model.record(key).cloned()).collect()))
            }
            Call::ListTasks { query } => self.list(&query).map(Answer::ListTasks),
            Call::Counts { scope } => {
                let values = self.state.lock().model.counts(&scope);
                let as_of = self.clock.now();
                Ok(Answer::Counts(Counts { values, oldest_ready_at: None, as_of, exact: true }))
            }
            Call::ListGroups { .. } => Err(not_here("groups")),
            Call::Assignable { requests } => {
                let (state, now) = (self.state.lock(), self.clock.now());
                let found = requests.iter().map(|request| state.model.assignable(request, now));
                Ok(Answer::Assignable(found.collect()))
            }
            Call::Assignments { .. } => Ok(Answer::Assignments(self.state.lock().model.assignments())),
            Call::AheadOf { .. } => Err(not_here("queue positions")),
            Call::ListQueues { namespace } => Ok(Answer::ListQueues(self.queues(&namespace))),
            Call::PutQueue { namespace, queue, settings, .. } => {
                settings.validate().map_err(Error::from).map(|()| {
                    Answer::PutQueue(self.with(|state, _| {
                        state.model.put_queue(namespace, queue, settings);
                        state.settings_version += 1;
                        Version(state.settings_version)
                    }))
                })
            }
            Call::PurgeTasks { rule, .. } => rule.validate().map_err(Error::from).map(|()| {
                let count = self.with(|state, now| state.model.purge(&rule, now));
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                Answer::PurgeTasks(Purged { count, more: false })
            }),
            Call::ListNamespaces { .. } => {
                let items = NAMESPACES.iter().map(|name| namespace(name)).collect();
                Ok(Answer::ListNamespaces(Page { items, next: None, complete: true }))
            }
            side => return Err(Box::new(side)),
        })
    }

    /// Runs under the lock, then wakes waiters.
    fn with<T>(&self, act: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let answer = act(&mut self.state.lock(), self.clock.now());
        self.changed.notify_waiters();
        answer
    }

    fn changes(&self, after: Option<ChangeCursor>, limit: u32) -> Changes {
        let state = self.state.lock();
        let changes = state.model.changes();
        let end = changes.len() as u64;
        let from = after.map_or(end, |cursor| cursor.position);
        let to = end.min(from.saturating_add(limit.into()));
        let shown = (from..to).filter(|position| !self.hides(*position));
        let items =
            shown.filter_map(|position| changes.get(usize::try_from(position).ok()?).cloned()).collect();
        Changes::Next { items, next: ChangeCursor { incarnation: 1, position: to } }
    }

    async fn wait(&self, interest: &Interest, timeout: Duration) -> Wake {
        let deadline = self.clock.monotonic().saturating_add(timeout);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the state is read, so that no change in between is missed.
            changed.as_mut().enable();
            let (ready, due) = self.poll(interest);
            let now = self.clock.monotonic();
            if ready {
                return Wake::Ready;
            }
            if now >= deadline {
                return Wake::TimedOut;
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

    /// Whether there may be something of interest, and if not, when something becomes due.
    fn poll(&self, interest: &Interest) -> (bool, Option<Timestamp>) {
        let (mut state, now) = (self.state.lock(), self.now_for_leases());
        // A waiter is woken only for what a lease call would take, or it would spin.
        let begun = self.has(Bug::KeyFreedDuringRetry).then(|| free_keys(&mut state.model));
        let answer = found(&state, interest, now);
        begun.into_iter().for_each(|begun| restore_keys(&mut state.model, begun));
        answer
    }

    fn list(&self, query: &TaskQuery) -> Result<Page<TaskRecord>> {
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

    fn queues(&self, namespace: &Namespace) -> Vec<QueueInfo> {
        let mut state = self.state.lock();
        let version = Version(state.settings_version);
        let set = state.model.queues_mut().clone().into_iter().filter(|((place, _), _)| place == namespace);
        let set: Vec<_> = set.collect();
        let info = |((place, name), settings): ((Namespace, QueueName), QueueSettings)| {
            let occupied = state.model.occupied(&place, &name);
            QueueInfo { name, settings, version, occupied }
        };
        set.into_iter().map(info).collect()
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
        Interest::Assigned { namespace, worker } => {
            let scope = Scope::Namespace(namespace.clone());
            let is_its =
                |record: &TaskRecord| record.state == TaskState::Assigned && record.holder() == Some(worker);
            (state.model.within(&scope).any(is_its), None)
        }
        // The leader of a world polls.
        Interest::Assignable { .. } => (false, None),
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

/// For calls that no world makes.
fn not_here(what: &str) -> Error {
    Error::Unavailable { reason: format!("the naive store has no {what}") }
}
