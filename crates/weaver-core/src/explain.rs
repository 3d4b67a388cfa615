//! Explains why a task is not running, with evidence, from the reads that every store has.

mod text;
mod unreadable;

use std::cmp::Ordering;

use crate::admission::{self, QueueFacts};
use crate::error::Result;
use crate::id::TaskKey;
use crate::name::{Namespace, QueueName, SerialKey, TaskType, WorkerId};
use crate::ports::{Order, RunnerRecord, Scope, Selector, Store, TaskQuery};
use crate::queue::QueueExt;
use crate::task::{Cause, TaskRecord, TaskState};
use crate::time::Timestamp;

/// Counting the tasks ahead of one stops here.
const AHEAD_CAP: u32 = 1000;
/// Runners read per explanation; a namespace with more is assumed to have one that serves the task.
const RUNNERS_MAX: u32 = 1000;
/// Waiting tasks of a serial key read to find one that is ahead.
const KEY_MEMBERS_MAX: u32 = 1000;
/// The states in which a task can hold its serial key.
const BEGUN: [TaskState; 5] = [
    TaskState::Assigned,
    TaskState::Orphaned,
    TaskState::Running,
    TaskState::RetryScheduled,
    TaskState::Cancelled,
];

/// Why a task is in its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The task that was asked about.
    pub key: TaskKey,
    /// Its id as people know it: [`TaskRecord::shown_id`].
    pub shown_id: String,
    /// Its stored state: a due task is still `Scheduled` or `RetryScheduled`.
    pub state: TaskState,
    /// When this was true, by the store's clock.
    pub as_of: Timestamp,
    /// Everything that keeps it from starting, or what it is doing, or how it ended. Never empty.
    pub reasons: Vec<Reason>,
}

/// One reason, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is not due yet.
    DueAt {
        /// Its `ready_at`, by the store's clock.
        at: Timestamp,
        /// How the last attempt ended, if it has run before.
        because: Option<Cause>,
    },
    /// Its `expires_at` passed before its first start; maintenance will cancel it.
    Expired {
        /// Its `expires_at`, by the wall clock.
        at: Timestamp,
    },
    /// Its serial key is held by another task.
    KeyHeld {
        /// The task that has started and not ended, by its [`TaskRecord::shown_id`].
        by: String,
        /// The worker of that task, while it is running or assigned.
        worker: Option<WorkerId>,
        /// When the lease of that task expires unless it is renewed.
        until: Option<Timestamp>,
    },
    /// Its serial key is held by a task that this process cannot read.
    KeyUnreadable {
        /// The unreadable task, as listed by `weaver tasks quarantine`.
        by: String,
    },
    /// Its serial key is free, but a due task that precedes it, mostly with a lower id, starts first.
    KeyWaitsFor {
        /// The first such task, by its [`TaskRecord::shown_id`].
        task: String,
    },
    /// Other tasks of its queue are leased before it: more urgent, or due earlier.
    Ahead {
        /// How many; counting stops at 1000.
        at_least: u32,
    },
    /// Its queue is paused.
    Paused {
        /// The queue to resume.
        queue: QueueName,
    },
    /// Its queue has reached its concurrency limit.
    LimitReached {
        /// The queue whose limit it is.
        queue: QueueName,
        /// Slots taken: running, assigned, orphaned, or under a cancellation hold.
        occupied: u64,
        /// The concurrency limit of the queue.
        max_running: u32,
    },
    /// Tasks that this process cannot read take slots of its queue.
    SlotsUnreadable {
        /// The queue whose slots they are.
        queue: QueueName,
        /// How many slots they take.
        count: u64,
    },
    /// The settings of its queue cannot be read: the queue counts as paused until they are written again.
    SettingsUnreadable {
        /// The queue whose settings they are.
        queue: QueueName,
    },
    /// No live worker serves its queue and type.
    NoWorker {
        /// The queue that is not served.
        queue: QueueName,
        /// The type that is not served.
        task_type: TaskType,
        /// How many workers of the namespace are alive nevertheless.
        alive: u32,
    },
    /// Nothing keeps it from starting: the next free worker leases it.
    NextInLine,
    /// A leader assigned it to a worker that has not started it.
    Assigned {
        /// The worker it is assigned to.
        worker: WorkerId,
        /// When it was assigned.
        since: Timestamp,
    },
    /// The worker it was assigned to disappeared; it waits to be assigned again.
    Orphaned {
        /// How many workers were lost with it so far.
        losses: u32,
    },
    /// A worker holds a lease on it.
    Running {
        /// The holder of the lease.
        worker: WorkerId,
        /// When the attempt started.
        since: Timestamp,
        /// When the lease expires unless it is renewed.
        lease_until: Timestamp,
    },
    /// It is running without a lease: its record was changed from outside. Maintenance ends the attempt as
    /// lost.
    RunningUnleased,
    /// It has reached a terminal state.
    Ended {
        /// Succeeded, dead or cancelled.
        state: TaskState,
        /// Why it died or was cancelled; `None` if it succeeded.
        because: Option<Cause>,
        /// When it ended, by the store's clock.
        at: Timestamp,
        /// The last attempt's error; `None` if it succeeded.
        error: Option<String>,
    },
    /// It was cancelled, and its handler has not confirmed that it stopped: the cancellation hold keeps key
    /// and slot.
    HandlerStopping {
        /// The worker that is to stop the handler.
        worker: WorkerId,
        /// When the hold ends at the latest.
        until: Timestamp,
    },
}

/// Explains a task; [`Error::NotFound`](crate::error::Error::NotFound) if there is none. A few reads, none of
/// which depends on the number of tasks.
pub async fn explain<S: Store + ?Sized>(store: &S, key: &TaskKey) -> Result<Explanation> {
    let scope = Scope::Namespace(key.namespace.clone());
    let record = store.get_task(key).await?;
    let as_of = store.counts(scope).await?.as_of;
    let reasons = match record.state {
        TaskState::Queued | TaskState::Scheduled | TaskState::RetryScheduled => {
            waiting(store, &record, as_of).await?
        }
        _ => not_waiting(&record),
    };
    let shown_id = record.shown_id();
    Ok(Explanation { key: key.clone(), shown_id, state: record.state, as_of, reasons })
}

/// The reasons that need nothing but the record.
fn not_waiting(record: &TaskRecord) -> Vec<Reason> {
    let mut reasons = Vec::new();
    match (record.state, &record.lease, &record.assignment) {
        (TaskState::Running, Some(held), _) => reasons.push(Reason::Running {
            worker: held.worker.clone(),
            since: held.started_at,
            lease_until: held.expires_at,
        }),
        (TaskState::Running, None, _) => reasons.push(Reason::RunningUnleased),
        (TaskState::Assigned, _, Some(given)) => {
            reasons.push(Reason::Assigned { worker: given.worker.clone(), since: given.assigned_at });
        }
        (TaskState::Orphaned, ..) => reasons.push(Reason::Orphaned { losses: record.losses }),
        _ => reasons.push(Reason::Ended {
            state: record.state,
            because: record.cause,
            at: record.finished_at.unwrap_or(record.updated_at),
            // What an earlier attempt reported is history once a later one has succeeded.
            error: record
                .last_error
                .as_deref()
                .filter(|_| record.state != TaskState::Succeeded)
                .map(str::to_owned),
        }),
    }
    if let (true, Some(held)) = (record.has_hold(), &record.lease) {
        reasons.push(Reason::HandlerStopping { worker: held.worker.clone(), until: held.expires_at });
    }
    reasons
}

async fn waiting<S: Store + ?Sized>(store: &S, record: &TaskRecord, as_of: Timestamp) -> Result<Vec<Reason>> {
    let mut reasons = Vec::new();
    if let Some(at) = record.spec.expires_at
        && record.is_expired(as_of)
    {
        reasons.push(Reason::Expired { at });
    }
    let is_due = record.is_due(as_of.into());
    if !is_due {
        reasons.push(Reason::DueAt { at: record.ready_at, because: record.cause });
    }
    reasons.extend(key_held(store, record, as_of).await?);
    reasons.extend(queue_closed(store, record).await?);
    reasons.extend(no_worker(store, record, as_of).await?);
    if is_due
        && let Some(ahead) = store.ahead_of(&record.key, AHEAD_CAP).await?
        && ahead.count > 0
    {
        reasons.push(Reason::Ahead { at_least: ahead.count });
    }
    if reasons.is_empty() {
        reasons.push(Reason::NextInLine);
    }
    Ok(reasons)
}

async fn key_held<S: Store + ?Sized>(
    store: &S,
    record: &TaskRecord,
    as_of: Timestamp,
) -> Result<Option<Reason>> {
    let Some(key) = &record.spec.serial_key else { return Ok(None) };
    if record.holds_key() {
        return Ok(None);
    }
    // A query of its own: any number of lower ids that wait for a later time may precede the holder in the
    // list.
    let begun = members(store, &record.key.namespace, key, &BEGUN).await?;
    if let Some(holder) = begun.iter().find(|member| member.holds_key()) {
        let held = holder.lease.as_ref();
        let given = holder.assignment.as_ref().map(|given| &given.worker);
        return Ok(Some(Reason::KeyHeld {
            by: holder.shown_id(),
            worker: held.map(|held| &held.worker).or(given).cloned(),
            until: held.map(|held| held.expires_at),
        }));
    }
    let waiting =
        members(store, &record.key.namespace, key, &[TaskState::Queued, TaskState::Scheduled]).await?;
    // The lists above have added those that cannot be read to the quarantine.
    if let Some(reason) = unreadable::key_holder(store, record, key).await? {
        return Ok(Some(reason));
    }
    let startable = waiting.iter().filter(|member| member.is_startable(as_of.into()));
    let first = startable
        .filter(|member| starts_before(member, record))
        .min_by(|one, other| if starts_before(one, other) { Ordering::Less } else { Ordering::Greater });
    Ok(first.map(|first| Reason::KeyWaitsFor { task: first.shown_id() }))
}

/// Whether a startable task precedes another one of its serial key. Ids that another client chose say
/// nothing: its tasks start in order of creation.
fn starts_before(one: &TaskRecord, other: &TaskRecord) -> bool {
    let is_theirs = |record: &TaskRecord| record.spec.origin().external_id.is_some();
    if is_theirs(one) || is_theirs(other) {
        return (one.created_at, one.shown_id()) < (other.created_at, other.shown_id());
    }
    one.key.id != other.key.id && admission::goes_first(one.key.id, false, true, other.key.id, false)
}

async fn members<S: Store + ?Sized>(
    store: &S,
    namespace: &Namespace,
    key: &SerialKey,
    states: &[TaskState],
) -> Result<Vec<TaskRecord>> {
    let mut query = TaskQuery::new(namespace.clone()).select(Selector::SerialKey(key.clone()));
    query.filter.states = states.to_vec();
    query.order = Order::OldestFirst;
    query.limit = KEY_MEMBERS_MAX;
    Ok(store.list_tasks(query).await?.items)
}

async fn queue_closed<S: Store + ?Sized>(store: &S, record: &TaskRecord) -> Result<Vec<Reason>> {
    let queues = store.list_queues(&record.key.namespace).await?;
    let Some(queue) = queues.into_iter().find(|queue| queue.name == record.spec.queue) else {
        return Ok(Vec::new());
    };
    let unreadable = unreadable::settings(store, record).await?;
    let is_paused = admission::is_paused(queue.settings.paused) && unreadable.is_none();
    let paused = is_paused.then(|| Reason::Paused { queue: queue.name.clone() });
    let facts = QueueFacts { settings: queue.settings, occupied: queue.occupied };
    let full = queue.settings.max_running.filter(|_| facts.is_full());
    let slots = if full.is_some() { unreadable::slots(store, record).await? } else { None };
    let full = full.map(|max_running| Reason::LimitReached {
        queue: queue.name.clone(),
        occupied: queue.occupied,
        max_running,
    });
    Ok(unreadable.into_iter().chain(paused).chain(full).chain(slots).collect())
}

async fn no_worker<S: Store + ?Sized>(
    store: &S,
    record: &TaskRecord,
    as_of: Timestamp,
) -> Result<Option<Reason>> {
    let page = store.list_runners(&record.key.namespace, None, RUNNERS_MAX).await?;
    let alive: Vec<&RunnerRecord> = page.items.iter().filter(|runner| runner.is_alive(as_of)).collect();
    let (queue, task_type) = (&record.spec.queue, &record.spec.envelope.task_type);
    let served = alive.iter().any(|runner| runner.serves(queue, task_type));
    // With more runners than one page, finding none on it proves nothing.
    if served || page.next.is_some() {
        return Ok(None);
    }
    let alive = u32::try_from(alive.len()).unwrap_or(u32::MAX);
    Ok(Some(Reason::NoWorker { queue: queue.clone(), task_type: task_type.clone(), alive }))
}
