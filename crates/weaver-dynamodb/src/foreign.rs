//! Items of other clients, which know only seed 000: they are found, adopted, and expired with their runner.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use weaver_core::error::{Error, Result};
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::ports::{ALIVE_WITHIN, RunnerKey};
use weaver_core::projection::queue_item::Status;
use weaver_core::queue::Overdue;
use weaver_core::task::TaskState;
use weaver_core::time::{Monotonic, Timestamp};

use crate::codec::foreign::{FOREIGN_TOKEN, is_adopted, is_moved, status_of};
use crate::codec::record::{PROMPT, key_of};
use crate::codec::value::{Attributes, s};
use crate::db::{Index, Item, Query, Table, Write, Written};
use crate::keys;
use crate::poll::WaitingPoll;
use crate::ports::CONCURRENCY_MAX;
use crate::records::too_contended;
use crate::store::{DynamoStore, Stored};

/// Interval at which a process polls for other clients' tasks: seed 000's polling interval.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Items read per query of running tasks: the index projects all attributes, and each is paid for.
const PAGE: u32 = 25;

/// Maximum number of namespaces whose polls a process remembers.
const NAMESPACES_MAX: usize = 1000;

/// Maximum number of attempts to adopt an item while other writers change its session's gate.
const TRIES_MAX: u32 = 5;

/// Positions of this process's polls.
#[derive(Debug, Default)]
pub(crate) struct PollState {
    /// The namespaces that this process serves.
    waiting: HashMap<Namespace, Arc<NamespacePoll>>,
    running: Option<Item>,
    /// Plans without leased tasks: revision, and since when.
    pub(crate) dangling_plans: HashMap<LeaseToken, (u64, Monotonic)>,
}

/// The polls of one namespace.
#[derive(Debug, Default)]
struct NamespacePoll {
    /// Whether a call is polling. Two at a time could adopt the tasks of a session in the wrong order. A flag
    /// and not a lock: a poll waits for DynamoDB, and no lock is held across an `.await`.
    is_polling: AtomicBool,
    position: Mutex<WaitingPoll>,
}

/// The one poll of its namespace in this process. Ends when it is dropped, also by a cancelled call.
struct Polling(Arc<NamespacePoll>);

impl Polling {
    /// `None` if another call of this process is polling the namespace.
    fn begin(poll: Arc<NamespacePoll>) -> Option<Self> {
        // Acquire and Release: a poll sees the position that the previous one left.
        (!poll.is_polling.swap(true, Ordering::Acquire)).then(|| Self(poll))
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.is_polling.store(false, Ordering::Release);
    }
}

impl DynamoStore {
    /// Polls for tasks that other clients enqueued in the namespace, if due, and adopts them, oldest first.
    /// Only for a caller that could lease them: an item of another namespace, or one that no worker of this
    /// process runs, is not touched.
    pub(crate) async fn adopt_if_due(
        &self,
        namespace: &Namespace,
        queues: &[QueueName],
        types: Option<&[TaskType]>,
    ) -> Result<()> {
        let is_served = queues.contains(&QueueName::default())
            && types.is_none_or(|types| types.iter().any(|name| name.as_str() == PROMPT));
        if !is_served {
            return Ok(());
        }
        let Some(polling) = self.begin_poll(namespace) else { return Ok(()) };
        let mut next = polling.0.position.lock().clone();
        let found = self.find_waiting(namespace, &mut next).await?;
        if self.adopt_all(found).await {
            // Only now: what a cancelled or failed call did not adopt is found again by the next poll.
            *polling.0.position.lock() = next;
        }
        Ok(())
    }

    /// `None` if the next poll is not due, or another call of this process is polling.
    fn begin_poll(&self, namespace: &Namespace) -> Option<Polling> {
        let poll = {
            let mut poll_state = self.poll_state.lock();
            if poll_state.waiting.len() >= NAMESPACES_MAX && !poll_state.waiting.contains_key(namespace) {
                // The others start again from the oldest item.
                poll_state.waiting.retain(|_, poll| poll.is_polling.load(Ordering::Relaxed));
            }
            Arc::clone(poll_state.waiting.entry(namespace.clone()).or_default())
        };
        let polling = Polling::begin(poll)?;
        let now = self.clock.monotonic();
        let is_due = {
            let mut position = polling.0.position.lock();
            let is_due = position.polled_at.is_none_or(|at| at.saturating_add(POLL_EVERY) <= now);
            if is_due {
                position.polled_at = Some(now);
            }
            is_due
        };
        is_due.then_some(polling)
    }

    /// Adopts items: those of a session in order, so that a later one is never leased first; sessions
    /// concurrently. Returns whether it is done with all of them: adopted, or never to be.
    async fn adopt_all(&self, items: Vec<Item>) -> bool {
        let mut sessions: Vec<Vec<Item>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for item in items {
            let place = match item.text("session_id").filter(|session| !session.is_empty()) {
                Some(session) => *places.entry(session.to_owned()).or_insert(sessions.len()),
                None => sessions.len(),
            };
            match sessions.get_mut(place) {
                Some(session) => session.push(item),
                None => sessions.push(vec![item]),
            }
        }
        let adopted = stream::iter(sessions).map(|session| self.adopt_in_order(session));
        // Not `all`: it would drop the others at the first failure.
        adopted.buffer_unordered(CONCURRENCY_MAX).fold(true, |all, done| async move { all && done }).await
    }

    /// Adopts the items of a session. One that can never be adopted is skipped; after any other failure the
    /// later ones wait for the next poll, so that none of them starts before it.
    async fn adopt_in_order(&self, session: Vec<Item>) -> bool {
        for item in session {
            let Ok(key) = key_of(&item) else { continue };
            match self.adopt(item, &key).await {
                Ok(()) => {}
                Err(error @ Error::Rejected { .. }) => {
                    tracing::warn!(%error, task_id = %key.shown_id(), "another client's task cannot be adopted");
                }
                Err(error) => {
                    let task_id = key.shown_id();
                    tracing::warn!(%error, %task_id, "adopting another client's task failed; retrying");
                    return false;
                }
            }
        }
        true
    }

    /// Adopts another client's item as a task, by one conditional write. An unreadable one is quarantined;
    /// one that another process adopted or its client changed is left as it is.
    async fn adopt(&self, mut item: Item, key: &TaskKey) -> Result<()> {
        for attempt in 0..TRIES_MAX {
            let Some(mut stored) = self.read(vec![item]).await?.pop() else { return Ok(()) };
            // Seed 000 has no delays: a clock that runs ahead must not become one.
            stored.record.ready_at = stored.record.ready_at.min(self.now());
            self.announce().await?;
            if !self.note_name(key).await? {
                return Ok(());
            }
            self.put_entries(&stored.record).await?;
            if self.reconcile(stored).await? {
                tracing::info!(task_id = %key.shown_id(), "adopted a task enqueued by another client");
                return Ok(());
            }
            // Either it has changed, or a concurrent transaction changed its session's gate.
            let current = self.db.get(Table::Queue, vec![keys::task(&key.namespace, &keys::name_in(key))]);
            match current.await?.pop() {
                Some(current) if !is_adopted(&current) && status_of(&current) == Some(Status::Queued) => {
                    item = current;
                }
                _ => return Ok(()),
            }
            crate::db::backoff(attempt).await;
        }
        Err(too_contended(&format_args!("task {key}")))
    }

    /// Stores the name of a task that another client named; `false` if another name hashes to the same id.
    pub(crate) async fn note_name(&self, key: &TaskKey) -> Result<bool> {
        if !key.id.is_foreign() || self.names.lock().contains_key(key) {
            return Ok(true);
        }
        let name = keys::name_in(key);
        let mut item = keys::data(&keys::foreign(&key.namespace), &keys::padded(key.id.0));
        item.put_text("name", name.as_str());
        let write = Write::put(Table::Data, item)
            .when("attribute_not_exists(pk) OR #name = :name")
            .name("#name", "name")
            .value(":name", s(name.as_str()));
        match self.db.write(write).await? {
            Written::Applied(_) => {
                self.names.lock().insert(key.clone(), name);
                Ok(true)
            }
            Written::ConditionFailed | Written::Conflict => {
                let task_id = key.shown_id();
                tracing::error!(%task_id, "task name hashes to another task's id: rename one of them");
                Ok(false)
            }
        }
    }

    /// Running tasks of the namespaces that this process serves, whose seed-only runner is dead: no heartbeat
    /// for seed 000's two minutes.
    pub(crate) async fn overdue_foreign(&self, limit: usize) -> Result<Vec<Overdue>> {
        let (start, served) = {
            let mut poll_state = self.poll_state.lock();
            let served: HashSet<String> = poll_state.waiting.keys().map(ToString::to_string).collect();
            (poll_state.running.take(), served)
        };
        let query = Query::index(Index::Status, Status::Running.as_str()).limit(PAGE);
        let found = self.db.query(query.after(start)).await?;
        self.poll_state.lock().running = found.next;
        let is_served = |item: &Item| item.text("namespace").is_some_and(|name| served.contains(name));
        let others =
            |item: &Item| is_served(item) && (!is_adopted(item) || is_moved(item) || is_theirs(item));
        let suspects: Vec<TaskKey> =
            found.items.iter().filter(|item| others(item)).filter_map(|item| key_of(item).ok()).collect();
        let mut overdue = Vec::new();
        let names = found.items.iter().filter(|item| others(item)).cloned().collect();
        for stored in self.read(names).await? {
            self.note_name(&stored.record.key).await?;
        }
        for stored in self.load(&suspects).await?.into_values() {
            if overdue.len() < limit && self.is_given_up(&stored).await? {
                overdue.push(Overdue { record: stored.record, reason: OverdueReason::Lease });
            }
        }
        Ok(overdue)
    }

    async fn is_given_up(&self, stored: &Stored) -> Result<bool> {
        let record = &stored.record;
        let Some(held) = record.lease.as_ref().filter(|held| held.token == FOREIGN_TOKEN) else {
            return Ok(false);
        };
        let now = self.now();
        if record.state != TaskState::Running || now.since(record.updated_at) < ALIVE_WITHIN {
            return Ok(false);
        }
        let runner = RunnerKey { namespace: record.key.namespace.clone(), runner_id: held.worker.clone() };
        let found = self.db.get(Table::Runners, vec![keys::runner(&runner)]).await?;
        Ok(!found.first().is_some_and(|item| is_alive(item, now)))
    }

    /// Live runners that know only seed 000: they ignore delays, serial keys and pauses.
    ///
    /// # Errors
    /// If DynamoDB is unavailable.
    pub async fn foreign_runners(&self, namespace: &Namespace) -> Result<Vec<WorkerId>> {
        let now = self.now();
        let items = self.query_all(Query::table(Table::Runners, namespace.as_str())).await?;
        let foreign = items.iter().filter(|item| !item.contains_key("queues") && is_alive(item, now));
        Ok(foreign.filter_map(|item| WorkerId::try_from(item.text("runner_id")?).ok()).collect())
    }
}

/// Whether Weaver has recorded that a seed-only runner runs the task.
fn is_theirs(item: &Item) -> bool {
    item.text("lease_token") == Some(keys::token_text(FOREIGN_TOKEN).as_str())
}

/// Seed 000's rule: not stopped, and the last heartbeat is less than two minutes old.
fn is_alive(item: &Item, now: Timestamp) -> bool {
    let beat: Option<Timestamp> = item.text("last_heartbeat").and_then(|text| text.parse().ok());
    item.text("status") == Some("running") && beat.is_some_and(|beat| now.since(beat) < ALIVE_WITHIN)
}
