//! Why is it not running? One computed answer with evidence, from what any store can say.

mod unreadable;

use std::fmt;

use crate::admission::{self, QueueFacts};
use crate::error::Result;
use crate::id::{TaskId, TaskKey};
use crate::name::{Namespace, QueueName, SerialKey, TaskType, WorkerId};
use crate::ports::{Order, RunnerRecord, Scope, Selector, Store, TaskQuery};
use crate::queue::QueueExt;
use crate::task::{Cause, TaskRecord, TaskState};
use crate::time::Timestamp;

/// How far the tasks ahead of one are counted.
const AHEAD_CAP: u32 = 1000;
/// How many runners are looked at; a namespace with more has one that serves.
const RUNNERS_MAX: u32 = 1000;
/// How many waiting tasks of a serial key are looked at to find one that goes first.
const KEY_MEMBERS_MAX: u32 = 1000;
/// The states in which a task can hold its serial key.
const BEGUN: [TaskState; 5] = [
    TaskState::Assigned,
    TaskState::Orphaned,
    TaskState::Running,
    TaskState::RetryScheduled,
    TaskState::Cancelled,
];

/// What there is to say about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The task.
    pub key: TaskKey,
    /// Its state.
    pub state: TaskState,
    /// When this was true, by the store's clock.
    pub as_of: Timestamp,
    /// Everything that stands between it and its start, or what it is doing, or how it ended.
    pub reasons: Vec<Reason>,
}

/// One reason, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is not due yet.
    DueAt {
        /// When it is.
        at: Timestamp,
        /// Why it waits again, if it has run before.
        because: Option<Cause>,
    },
    /// It should have started earlier, and will be cancelled.
    Expired {
        /// Than this.
        at: Timestamp,
    },
    /// Its serial key is held.
    KeyHeld {
        /// By this task
        by: TaskId,
        /// on this worker, if it runs or is assigned,
        worker: Option<WorkerId>,
        /// until then, unless renewed.
        until: Option<Timestamp>,
    },
    /// Its serial key is held by a task that this process cannot read.
    KeyUnreadable {
        /// This one.
        by: TaskId,
    },
    /// Its serial key is free, but another task goes first.
    KeyWaitsFor {
        /// This one.
        task: TaskId,
    },
    /// Others of its queue go first.
    Ahead {
        /// At least so many.
        at_least: u32,
    },
    /// Its queue is paused.
    Paused {
        /// This one.
        queue: QueueName,
    },
    /// Its queue has as many tasks under way as it may.
    LimitReached {
        /// This one.
        queue: QueueName,
        /// So many are under way (or held by handlers that have yet to stop).
        occupied: u64,
        /// So many may be.
        max_running: u32,
    },
    /// Tasks that this process cannot read keep slots of its queue.
    SlotsUnreadable {
        /// This one.
        queue: QueueName,
        /// So many.
        count: u64,
    },
    /// The settings of its queue cannot be read: it counts as paused until they are written again.
    SettingsUnreadable {
        /// This one.
        queue: QueueName,
    },
    /// Nobody alive would take it.
    NoWorker {
        /// From this queue
        queue: QueueName,
        /// of this type,
        task_type: TaskType,
        /// though so many workers of the namespace are alive.
        alive: u32,
    },
    /// Nothing stands in its way: a worker will take it.
    NextInLine,
    /// A leader gave it to a worker that has not started it.
    Assigned {
        /// This one.
        worker: WorkerId,
        /// Since then.
        since: Timestamp,
    },
    /// The worker it was assigned to is gone; it waits to be assigned again.
    Orphaned {
        /// This has happened so often.
        losses: u32,
    },
    /// It runs.
    Running {
        /// Here.
        worker: WorkerId,
        /// Since then.
        since: Timestamp,
        /// Its lease lasts until then, unless renewed.
        lease_until: Timestamp,
    },
    /// It runs without a lease: its record was changed from outside. Maintenance releases it as a lost
    /// attempt.
    RunningUnleased,
    /// It ended.
    Ended {
        /// How.
        state: TaskState,
        /// Why.
        because: Option<Cause>,
        /// When.
        at: Timestamp,
        /// With which error.
        error: Option<String>,
    },
    /// It was cancelled, and its handler has not confirmed that it stopped: key and slot are still held.
    HandlerStopping {
        /// Here.
        worker: WorkerId,
        /// At most until then.
        until: Timestamp,
    },
}

/// Explains a task.
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
    Ok(Explanation { key: key.clone(), state: record.state, as_of, reasons })
}

/// What a record says by itself once it no longer waits.
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
    // Asked for apart: any number of lower ids may stand before the holder in the list, waiting for a later
    // time.
    let begun = members(store, &record.key.namespace, key, &BEGUN).await?;
    if let Some(holder) = begun.iter().find(|member| member.holds_key()) {
        let held = holder.lease.as_ref();
        let given = holder.assignment.as_ref().map(|given| &given.worker);
        return Ok(Some(Reason::KeyHeld {
            by: holder.key.id,
            worker: held.map(|held| &held.worker).or(given).cloned(),
            until: held.map(|held| held.expires_at),
        }));
    }
    let waiting =
        members(store, &record.key.namespace, key, &[TaskState::Queued, TaskState::Scheduled]).await?;
    // Listing them has shown which of them cannot be read.
    if let Some(reason) = unreadable::key_holder(store, record, key).await? {
        return Ok(Some(reason));
    }
    let goes_first = |member: &&TaskRecord| {
        let is_startable = member.is_startable(as_of.into());
        member.key.id != record.key.id
            && admission::goes_first(member.key.id, false, is_startable, record.key.id, false)
    };
    let first = waiting.iter().filter(goes_first).map(|member| member.key.id).min();
    Ok(first.map(|task| Reason::KeyWaitsFor { task }))
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
    // With more runners than one page, not finding one proves nothing.
    if served || page.next.is_some() {
        return Ok(None);
    }
    let alive = u32::try_from(alive.len()).unwrap_or(u32::MAX);
    Ok(Some(Reason::NoWorker { queue: queue.clone(), task_type: task_type.clone(), alive }))
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "task {} is {}", self.key, self.state)?;
        self.reasons.iter().try_for_each(|reason| write!(out, "\n  {reason}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DueAt { at, because: None } => write!(out, "due at {at}"),
            Self::DueAt { at, because: Some(cause) } => write!(out, "due again at {at}: {cause}"),
            Self::Expired { at } => {
                write!(out, "expired at {at}, before its first start; it will be cancelled")
            }
            Self::KeyHeld { by, worker: Some(worker), until: Some(until) } => {
                write!(out, "its serial key is held by task {by} on {worker}, until {until} unless renewed")
            }
            Self::KeyHeld { by, worker: Some(worker), until: None } => {
                write!(out, "its serial key is held by task {by}, assigned to {worker}")
            }
            Self::KeyHeld { by, .. } => {
                write!(out, "its serial key is held by task {by}, between two attempts")
            }
            Self::KeyUnreadable { by } => {
                write!(
                    out,
                    "its serial key is held by task {by}, which cannot be read: `weaver store check` names the cause, "
                )?;
                write!(out, "`weaver tasks purge {by}` removes it")
            }
            Self::KeyWaitsFor { task } => write!(out, "task {task} of the same serial key goes first"),
            Self::Ahead { at_least: 1 } => out.write_str("at least 1 task of its queue goes first"),
            Self::Ahead { at_least } => write!(out, "at least {at_least} tasks of its queue go first"),
            Self::Paused { queue } => write!(out, "queue {queue} is paused"),
            Self::LimitReached { queue, occupied, max_running } => {
                write!(out, "queue {queue} is full: {occupied} of at most {max_running} under way")
            }
            Self::SlotsUnreadable { queue, count } => {
                write!(out, "slots of queue {queue} that are held by tasks which cannot be read: {count}; ")?;
                out.write_str("`weaver store check` names them")
            }
            Self::SettingsUnreadable { queue } => {
                write!(out, "the settings of queue {queue} cannot be read, so it counts as paused: ")?;
                write!(out, "write them again, for example with `weaver queues resume {queue}`")
            }
            Self::NoWorker { queue, alive: 0, .. } => {
                write!(out, "no worker is alive in its namespace: start one that serves queue {queue}")
            }
            Self::NoWorker { queue, task_type, alive } => {
                write!(out, "nobody takes {task_type} tasks from queue {queue} (live workers: {alive})")
            }
            Self::NextInLine => out.write_str("nothing stands in its way: the next free worker takes it"),
            Self::Assigned { worker, since } => {
                write!(out, "assigned to {worker} since {since}, not started")
            }
            Self::Orphaned { losses } => {
                write!(out, "its worker is gone (losses so far: {losses}); it waits to be assigned again")
            }
            Self::Running { worker, since, lease_until } => {
                write!(out, "running on {worker} since {since}, lease until {lease_until} unless renewed")
            }
            Self::RunningUnleased => out.write_str("running without a lease; maintenance releases it"),
            Self::Ended { state, because, at, error } => {
                write!(out, "ended {state} at {at}")?;
                because.iter().try_for_each(|cause| write!(out, ": {cause}"))?;
                error.iter().try_for_each(|error| write!(out, " ({error})"))
            }
            Self::HandlerStopping { worker, until } => {
                write!(out, "its handler on {worker} has yet to stop; at the latest at {until}")
            }
        }
    }
}
