//! Operations of the naive store, with and without bugs.

use std::collections::BTreeMap;

use weaver_core::id::TaskKey;
use weaver_core::lease::{LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{HolderChange, OverdueReason, Transition, Verb};
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::QueueSettings;
use weaver_core::queue::{Committed, Enqueued, Overdue};
use weaver_core::task::{TaskRecord, TaskState, UniqueKey, ValidTask};
use weaver_core::time::Timestamp;

use crate::harness::{namespace, seconds};
use crate::model::Reference;
use crate::simulation::buggy::{Bug, Model, State};
use crate::simulation::scenario::NAMESPACES;

/// One in this many changes or tasks is lost.
const LOST_ONE_IN: u64 = 9;

impl Model {
    pub(super) fn put(&self, state: &mut State, task: ValidTask, now: Timestamp) -> Enqueued {
        let task = if self.has(Bug::IdempotencyIgnored) { without_key(task) } else { task };
        let unique: Vec<UniqueKey> = task.spec.unique_keys().collect();
        let known = state.model.found(&task.namespace, &unique);
        let existing = known.is_some();
        let key = known.unwrap_or_else(|| TaskKey::new(task.namespace.clone(), state.next_id()));
        let answer = Enqueued { key, existing };
        if !existing && self.has(Bug::EnqueueLost) && answer.key.id.0.is_multiple_of(LOST_ONE_IN) {
            return answer;
        }
        let added = state.model.enqueue(vec![task], std::slice::from_ref(&answer), now);
        added.expect("the model is consistent");
        answer
    }

    pub(super) fn take(&self, state: &mut State, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
        let model = &mut state.model;
        match self.bug {
            Some(Bug::LeasedBeforeDue) => model.lease(request, self.now_for_leases()).leased,
            Some(Bug::GrantedTwice) => granted_twice(model, request, now),
            Some(Bug::KeyFreedDuringRetry) => with_keys_freed(model, request, now),
            Some(Bug::NamespaceIgnored) => anywhere(model, request, now),
            Some(Bug::LimitIgnored) => with_limits_off(model, request, now),
            Some(Bug::OrderReversed) => reversed(model, request, now),
            _ => in_order(model, request, now),
        }
    }

    /// Time by which leases are granted and waiters woken.
    pub(super) fn now_for_leases(&self) -> Timestamp {
        let now = self.clock.now();
        if self.has(Bug::LeasedBeforeDue) { now.saturating_add(seconds(2)) } else { now }
    }

    pub(super) fn make(&self, state: &mut State, mut transition: Transition, now: Timestamp) -> Committed {
        let Some(record) = state.model.record(&transition.key) else { return Committed::Stale };
        match self.bug {
            Some(Bug::NoFence) if record.state == transition.from => {
                transition.expected_version = record.version;
                transition.expected_token = record.lease.as_ref().map(|held| held.token);
            }
            Some(Bug::TerminalCanMove) if record.state.is_terminal() && record.state != transition.to => {
                transition.expected_version = record.version;
                transition.from = record.state;
            }
            Some(Bug::ExpiryIgnoresRenewals) => transition.expected_renewals = None,
            Some(Bug::LostCountedAsFailed) if transition.verb == Verb::ExpireLease => {
                transition.counters.losses -= 1;
                transition.counters.failures += 1;
            }
            Some(Bug::ReleaseCharged) if transition.verb == Verb::Release => {
                transition.counters.failures += 1;
            }
            Some(Bug::HoldFreedOnCancel) if transition.holder == HolderChange::Hold => {
                transition.holder = HolderChange::Clear;
            }
            _ => {}
        }
        state.model.commit(transition, now)
    }

    pub(super) fn extend(&self, state: &mut State, renewal: Renewal, now: Timestamp) -> Renewed {
        let key = renewal.lease.key.clone();
        let record = state.model.record(&key);
        let cancelled = record.is_some_and(|record| record.state == TaskState::Cancelled);
        if self.has(Bug::CancelNotTold) && cancelled {
            return Renewed::Extended;
        }
        let answer = state.model.renew(renewal, now);
        if self.has(Bug::RenewalBumpsVersion)
            && answer == Renewed::Extended
            && let Some(record) = state.model.records_mut().get_mut(&key)
        {
            record.version = record.version.next();
        }
        answer
    }

    pub(super) fn late(&self, state: &State, now: Timestamp) -> Vec<Overdue> {
        let mut overdue = state.model.overdue(now);
        match self.bug {
            Some(Bug::NothingOverdue) => overdue.retain(|item| item.reason != OverdueReason::Lease),
            Some(Bug::OverdueIgnoresRenewals) => overdue.extend(begun_long_ago(&state.model, now)),
            _ => {}
        }
        overdue
    }

    /// Whether a change is not published.
    pub(super) fn hides(&self, position: u64) -> bool {
        self.has(Bug::EventsLost) && position % LOST_ONE_IN == LOST_ONE_IN - 1
    }
}

fn without_key(task: ValidTask) -> ValidTask {
    let mut spec = (*task.spec).clone();
    spec.idempotency_key = None;
    ValidTask { spec: spec.into(), ..task }
}

/// A repeated call gets the rest of its first answer, in the same order.
fn in_order(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let mut leased = model.lease(request, now).leased;
    leased.sort_by_key(|leased| (leased.record.spec.priority, leased.record.ready_at, leased.record.key.id));
    leased
}

/// Also leases tasks that another worker runs.
fn granted_twice(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let wanted = |record: &&mut TaskRecord| {
        record.state == TaskState::Running
            && record.key.namespace == request.namespace
            && record.current_lease().is_some_and(|lease| lease.worker != request.worker)
    };
    let found = model.records_mut().values_mut().find(wanted);
    let Some(record) = found else { return model.lease(request, now).leased };
    let lease = record.current_lease().map(|lease| weaver_core::lease::Lease {
        token: request.token,
        worker: request.worker.clone(),
        ..lease
    });
    lease.map(|lease| Leased { lease, record: record.clone() }).into_iter().collect()
}

/// As if tasks that wait for a retry had never started.
fn with_keys_freed(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let begun = free_keys(model);
    let mut leased = model.lease(request, now).leased;
    for leased in &mut leased {
        leased.record.executions += begun.get(&leased.lease.key).copied().unwrap_or(0);
    }
    restore_keys(model, begun);
    leased
}

/// Resets the start count of tasks that wait for a retry; returns the old counts.
pub(super) fn free_keys(model: &mut Reference) -> BTreeMap<TaskKey, u32> {
    // Not those that could expire: a task that has not started may not start after that, which would be
    // another bug.
    let waits = |record: &&mut TaskRecord| {
        record.state == TaskState::RetryScheduled && record.spec.expires_at.is_none()
    };
    let waiting = model.records_mut().values_mut().filter(waits);
    waiting.map(|record| (record.key.clone(), std::mem::take(&mut record.executions))).collect()
}

pub(super) fn restore_keys(model: &mut Reference, begun: BTreeMap<TaskKey, u32>) {
    for (key, executions) in begun {
        if let Some(record) = model.records_mut().get_mut(&key) {
            record.executions += executions;
        }
    }
}

fn anywhere(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let own = model.lease(request, now).leased;
    if !own.is_empty() {
        return own;
    }
    let elsewhere = NAMESPACES.iter().map(|name| namespace(name)).filter(|name| *name != request.namespace);
    elsewhere
        .flat_map(|namespace| model.lease(&LeaseRequest { namespace, ..request.clone() }, now).leased)
        .collect()
}

fn with_limits_off(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let limits: BTreeMap<(Namespace, QueueName), QueueSettings> = model.queues_mut().clone();
    model.queues_mut().values_mut().for_each(|settings| settings.max_running = None);
    let leased = model.lease(request, now).leased;
    *model.queues_mut() = limits;
    leased
}

fn reversed(model: &mut Reference, request: &LeaseRequest, now: Timestamp) -> Vec<Leased> {
    let mut leased = Vec::new();
    let keys: Vec<_> = model.records_mut().values().map(|record| record.key.clone()).collect();
    for key in keys.into_iter().rev() {
        if leased.len() == request.max as usize {
            break;
        }
        leased.extend(lease_only(model, request, &key, now));
    }
    leased
}

/// A lease call as if only this task were waiting.
fn lease_only(model: &mut Reference, request: &LeaseRequest, key: &TaskKey, now: Timestamp) -> Vec<Leased> {
    let others: BTreeMap<_, _> = model
        .records_mut()
        .extract_if(.., |other, record| other != key && record.state.is_waiting())
        .collect();
    let leased = model.lease(&LeaseRequest { max: 1, ..request.clone() }, now);
    model.records_mut().extend(others);
    if leased.repeated { Vec::new() } else { leased.leased }
}

fn begun_long_ago(model: &Reference, now: Timestamp) -> Vec<Overdue> {
    let mut overdue = Vec::new();
    for name in NAMESPACES {
        let scope = weaver_core::ports::Scope::Namespace(namespace(name));
        for record in model.within(&scope).filter(|record| record.state == TaskState::Running) {
            let held = record.lease.as_ref();
            if held
                .is_some_and(|held| held.started_at.saturating_add(held.ttl) <= now && held.expires_at > now)
            {
                overdue.push(Overdue { record: record.clone(), reason: OverdueReason::Lease });
            }
        }
    }
    overdue
}
