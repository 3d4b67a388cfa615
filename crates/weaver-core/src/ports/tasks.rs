//! Looking at tasks.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{TaskId, TaskKey};
use crate::limits::check_page;
use crate::name::{Namespace, QueueName, SerialKey, SessionId, TaskGroupId, TaskType};
use crate::task::{TaskRecord, TaskState};
use crate::time::Timestamp;

/// How many records one call may look at to fill a page, unless it says otherwise.
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
    /// Finds tasks by the text of their ids. A decimal number is itself, whether or not there is such a task;
    /// any other text is found only if a task has it as its own name.
    async fn resolve(&self, namespace: &Namespace, ids: &[String]) -> Result<Vec<Option<TaskKey>>>;

    /// Reads records; `None` where there is none.
    async fn get_tasks(&self, keys: &[TaskKey]) -> Result<Vec<Option<TaskRecord>>>;

    /// The task groups of a namespace with their counts, by id.
    async fn list_groups(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<GroupSummary>>;

    /// Finds tasks.
    async fn list_tasks(&self, query: TaskQuery) -> Result<Page<TaskRecord>>;

    /// How many tasks are in each state. The cost does not depend on the number of records.
    async fn counts(&self, scope: Scope) -> Result<Counts>;

    /// How many tasks of its queue would be leased before this one, counting no further than `cap`. `None` if
    /// it is not waiting to be leased.
    async fn ahead_of(&self, key: &TaskKey, cap: u32) -> Result<Option<Ahead>>;
}

/// A search: one selector that the store has an index for, and a filter applied to what that finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskQuery {
    /// Where.
    pub namespace: Namespace,
    /// What the store looks up.
    pub selector: Selector,
    /// What is kept of it.
    pub filter: TaskFilter,
    /// In which order of creation.
    pub order: Order,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
    /// How many at most.
    pub limit: u32,
    /// How many records may be looked at for one page. A page cut short by this is not `complete` and has a
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

    /// With this selector.
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

/// What a store can look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Every task, by time of creation.
    All,
    /// Those in a state.
    State(TaskState),
    /// Those of a type.
    Type(TaskType),
    /// Those of a queue.
    Queue(QueueName),
    /// Those of a group.
    Group(TaskGroupId),
    /// Those of a session.
    Session(SessionId),
    /// Those with a label of this name and value.
    Label(String, String),
    /// Those that have not ended, or still hold it, of a serial key.
    SerialKey(SerialKey),
}

impl Selector {
    /// Whether a record is one of those. Stores without an index, and the reference model, go by this.
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
            Self::SerialKey(key) => {
                record.spec.serial_key.as_ref() == Some(key)
                    && (!record.state.is_terminal() || record.holds_key())
            }
        }
    }
}

/// What is kept of the tasks a selector found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<TaskState>,
    /// Of one of these types; empty: of any.
    pub types: Vec<TaskType>,
    /// Of this queue.
    pub queue: Option<QueueName>,
    /// Created at or after.
    pub created_from: Option<Timestamp>,
    /// Created before.
    pub created_before: Option<Timestamp>,
}

impl TaskFilter {
    /// Whether a record is kept.
    pub fn keeps(&self, record: &TaskRecord) -> bool {
        (self.states.is_empty() || self.states.contains(&record.state))
            && (self.types.is_empty() || self.types.contains(&record.spec.envelope.task_type))
            && self.queue.as_ref().is_none_or(|queue| record.spec.queue == *queue)
            && self.created_from.is_none_or(|from| record.created_at >= from)
            && self.created_before.is_none_or(|before| record.created_at < before)
    }
}

/// Which end of time comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By descending id.
    NewestFirst,
    /// By ascending id.
    OldestFirst,
}

/// Where a page ended; opaque, and only good for the query that returned it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on, if there may be more.
    pub next: Option<Cursor>,
    /// Whether the page is as full as it could be: `false` if `scan_max` cut it short.
    pub complete: bool,
}

/// Whose tasks are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A whole namespace.
    Namespace(Namespace),
    /// One queue.
    Queue(Namespace, QueueName),
}

/// How many tasks are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateCounts([u64; TaskState::ALL.len()]);

impl StateCounts {
    /// How many are in a state.
    pub fn get(&self, state: TaskState) -> u64 {
        self.0[state.index()]
    }

    /// So many are in a state, by a store that reads its counts back.
    pub fn set(&mut self, state: TaskState, count: u64) {
        self.0[state.index()] = count;
    }

    /// One more, by a store that keeps counts.
    pub fn add(&mut self, state: TaskState) {
        self.0[state.index()] += 1;
    }

    /// So many more.
    pub fn add_many(&mut self, state: TaskState, count: u64) {
        self.0[state.index()] += count;
    }

    /// One less.
    pub fn remove(&mut self, state: TaskState) {
        self.0[state.index()] -= 1;
    }

    /// All of them, state by state.
    pub fn iter(&self) -> impl Iterator<Item = (TaskState, u64)> {
        let counts = self.0;
        TaskState::ALL.into_iter().map(move |state| (state, counts[state.index()]))
    }

    /// How many there are in all.
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

/// Counts, and how good they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// The numbers. Tasks that are due keep their stored state in them.
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

/// A task group in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// The group.
    pub id: TaskGroupId,
    /// Its tasks that have not been purged.
    pub counts: StateCounts,
    /// When one of them last moved.
    pub last_at: Timestamp,
}

/// How many tasks come before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// So many.
    pub count: u32,
    /// Whether counting stopped at the cap: then it is at least so many.
    pub capped: bool,
}

/// A cursor over ids, for stores that page by id.
impl From<TaskId> for Cursor {
    fn from(id: TaskId) -> Self {
        Self(id.to_string())
    }
}
