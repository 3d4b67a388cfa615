//! Reads of tasks: by id, lists, counts.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{TaskId, TaskKey};
use crate::limits::check_page;
use crate::name::{Namespace, QueueName, SerialKey, SessionId, TaskGroupId, TaskType, WorkerId};
use crate::task::{TaskRecord, TaskState};
use crate::time::Timestamp;

/// How many records one call may read to fill a page, by default.
pub const SCAN_MAX_DEFAULT: u32 = 10_000;

/// Reads of tasks.
///
/// # Contract
/// - **G9** Only tasks of the namespace that was named.
/// - A read that begins after a write was answered sees it, except where the store documents an index that
///   lags.
/// - [`list_tasks`](Tasks::list_tasks) shows every task that matches throughout, exactly once, over all its
///   pages; one that changes meanwhile may or may not appear.
#[async_trait]
pub trait Tasks: Send + Sync {
    /// Resolves ids as text to keys. A decimal number is always resolved, whether or not there is such a
    /// task; any other text only if a task has it as its external id.
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>>;

    /// Reads records, in the order of the keys; `None` where there is none.
    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>>;

    /// The task groups of a namespace with their counts, by id.
    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>>;

    /// Lists tasks by selector and filter, page by page.
    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>>;

    /// How many tasks are in each state. The cost does not depend on the number of records.
    async fn counts(&self, scope: Scope) -> Result<Counts>;

    /// How many tasks of its queue would be leased before this one, counting no further than `cap`. `None` if
    /// it is not waiting to be leased.
    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>>;
}

/// A query: one selector for which the store has an index, and a filter applied to its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskQuery {
    /// Only tasks of this namespace are listed.
    pub namespace: Namespace,
    /// Answered by an index of the store, if it has one.
    pub selector: Selector,
    /// Applied to each task that the selector finds.
    pub filter: TaskFilter,
    /// By id, which is the order of creation.
    pub order: Order,
    /// The `next` of the last page; `None`: the first page.
    pub cursor: Option<Cursor>,
    /// The most tasks of a page, from 1 to [`PAGE_MAX`](crate::limits::PAGE_MAX).
    pub limit: u32,
    /// The most records read for one page, at least 1. A page cut short by this is not `complete` and has a
    /// cursor.
    pub scan_max: u32,
}

impl TaskQuery {
    /// The newest 50 tasks of a namespace.
    pub fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            selector: Selector::All,
            filter: TaskFilter::default(),
            order: Order::NewestFirst,
            cursor: None,
            limit: 50,
            scan_max: SCAN_MAX_DEFAULT,
        }
    }

    /// The same query with this selector.
    #[must_use]
    pub fn select(self, selector: Selector) -> Self {
        Self { selector, ..self }
    }

    /// Refuses pages of zero or too many. Stores call it first.
    pub fn validate(&self) -> Result<()> {
        check_page(self.limit)?;
        if self.scan_max == 0 {
            let problem = crate::error::Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(crate::error::Invalid::new("scan_max", problem).into());
        }
        Ok(())
    }
}

/// The first condition of a query, for which stores have an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Every task of the namespace.
    All,
    /// Tasks in this stored state: a due task is still `Scheduled` or `RetryScheduled`.
    State(TaskState),
    /// Tasks of this type.
    Type(TaskType),
    /// Tasks of this queue.
    Queue(QueueName),
    /// Tasks of this group.
    Group(TaskGroupId),
    /// Tasks of this session.
    Session(SessionId),
    /// Tasks with a label of this name and value.
    Label(String, String),
    /// Tasks with this serial key that have not ended or still hold it.
    SerialKey(SerialKey),
    /// Tasks that this worker runs, or that are assigned to it.
    Worker(WorkerId),
}

impl Selector {
    /// Whether it selects a record. Used by stores without an index, and by the reference model.
    pub fn selects(&self, record: &TaskRecord) -> bool {
        let origin = record.spec.origin();
        match self {
            Self::All => true,
            Self::State(state) => record.state == *state,
            Self::Type(task_type) => record.spec.envelope.task_type == *task_type,
            Self::Queue(queue) => record.spec.queue == *queue,
            Self::Group(group) => origin.task_group_id.as_ref() == Some(group),
            Self::Session(session) => origin.session_id.as_ref() == Some(session),
            Self::Label(name, value) => origin.labels.get(name) == Some(value),
            Self::Worker(worker) => record.holder() == Some(worker),
            Self::SerialKey(key) => {
                record.spec.serial_key.as_ref() == Some(key)
                    && (!record.state.is_terminal() || record.holds_key())
            }
        }
    }
}

/// Further conditions on the tasks that a selector finds; all must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<TaskState>,
    /// Of one of these types; empty: of any.
    pub types: Vec<TaskType>,
    /// In this queue; `None`: in any.
    pub queue: Option<QueueName>,
    /// Created at or after this instant.
    pub created_from: Option<Timestamp>,
    /// Created before this instant.
    pub created_before: Option<Timestamp>,
}

impl TaskFilter {
    /// Whether a record meets every condition.
    pub fn keeps(&self, record: &TaskRecord) -> bool {
        (self.states.is_empty() || self.states.contains(&record.state))
            && (self.types.is_empty() || self.types.contains(&record.spec.envelope.task_type))
            && self.queue.as_ref().is_none_or(|queue| record.spec.queue == *queue)
            && self.created_from.is_none_or(|from| record.created_at >= from)
            && self.created_before.is_none_or(|before| record.created_at < before)
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By descending id: the newest task first.
    NewestFirst,
    /// By ascending id: the oldest task first.
    OldestFirst,
}

/// Where a page ended; opaque, and valid only for the query that returned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// At most as many as the caller's limit.
    pub items: Vec<T>,
    /// The cursor of the next page; `None`: there are no more.
    pub next: Option<Cursor>,
    /// Whether the page is as full as it could be: `false` if `scan_max` cut it short.
    pub complete: bool,
}

/// Which tasks are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All queues of a namespace.
    Namespace(Namespace),
    /// One queue of a namespace.
    Queue(Namespace, QueueName),
}

/// How many tasks are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateCounts([u64; TaskState::ALL.len()]);

impl StateCounts {
    /// The count of a state.
    pub fn get(&self, state: TaskState) -> u64 {
        self.0[state.index()]
    }

    /// Replaces the count of a state, for a store that reads its counts back.
    pub fn set(&mut self, state: TaskState, count: u64) {
        self.0[state.index()] = count;
    }

    /// Adds one to a state, for a store that maintains its counts.
    pub fn add(&mut self, state: TaskState) {
        self.0[state.index()] += 1;
    }

    /// Adds `count` to a state.
    pub fn add_many(&mut self, state: TaskState, count: u64) {
        self.0[state.index()] += count;
    }

    /// Subtracts one from a state; it must not be 0.
    pub fn remove(&mut self, state: TaskState) {
        self.0[state.index()] -= 1;
    }

    /// Every state with its count, in the order of [`TaskState::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (TaskState, u64)> {
        let counts = self.0;
        TaskState::ALL.into_iter().map(move |state| (state, counts[state.index()]))
    }

    /// The sum over all states.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl std::ops::AddAssign for StateCounts {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// Counts, and how exact they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// By stored state: a due task is still counted as scheduled.
    pub values: StateCounts,
    /// Since when the longest-waiting task that could be leased has been due.
    pub oldest_ready_at: Option<Timestamp>,
    /// When they were taken, by the store's clock.
    pub as_of: Timestamp,
    /// Whether they are exact at that time.
    pub exact: bool,
}

impl Counts {
    /// How long the longest-waiting task has been due.
    pub fn oldest_wait(&self) -> Option<Duration> {
        self.oldest_ready_at.map(|ready_at| self.as_of.since(ready_at))
    }
}

/// A task group and the states of its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// Unique in the namespace.
    pub id: TaskGroupId,
    /// Its tasks that have not been purged, by state.
    pub counts: StateCounts,
    /// When one of its tasks last changed state.
    pub last_at: Timestamp,
}

/// How many tasks are leased before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// At most the cap.
    pub count: u32,
    /// Whether counting stopped at the cap: there may be more.
    pub capped: bool,
}

/// A cursor over ids, for stores that page by id.
impl From<TaskId> for Cursor {
    fn from(id: TaskId) -> Self {
        Self(id.to_string())
    }
}
