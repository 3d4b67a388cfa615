//! What the leader of a cluster reads: tasks to assign, and tasks that are assigned.

use async_trait::async_trait;

use crate::error::{Invalid, Problem, Result};
use crate::lease::LEASE_BATCH_MAX;
use crate::name::{Namespace, QueueName, TaskType};
use crate::task::TaskRecord;

/// Reads for a leader, which assigns by [`commit`](crate::queue::Queue::commit) with its epoch (seed 004).
///
/// # Contract
/// - Reads only: [`commit`](crate::queue::Queue::commit) checks due time, pause, limit and serial key again.
/// - The cost of [`assignable`](Assignments::assignable) depends on what it returns and not on how many tasks
///   wait, are pulled, or have ended.
/// - **G9** A request lists only tasks of the namespace it names.
#[async_trait]
pub trait Assignments: Send + Sync {
    /// For each request the due tasks that a leader assigns, in the order of G7, at most its `max`: in open
    /// queues, within their concurrency limits, and of each serial key only the one that starts next. A task
    /// may be in the answers to several requests.
    async fn assignable(&self, requests: Vec<AssignableRequest>) -> Result<Vec<Vec<TaskRecord>>>;

    /// Tasks that are assigned or orphaned, in every namespace, those first that have been so longest; at
    /// most `limit`.
    async fn assignments(&self, limit: u32) -> Result<Vec<TaskRecord>>;
}

/// The tasks that workers with room serve.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssignableRequest {
    /// Only tasks of this namespace.
    pub namespace: Namespace,
    /// Only tasks of these queues.
    pub queues: Vec<QueueName>,
    /// Only tasks of these types; `None`: of any.
    pub types: Option<Vec<TaskType>>,
    /// The most tasks to list, from 1 to [`LEASE_BATCH_MAX`].
    pub max: u32,
}

impl AssignableRequest {
    /// Refuses zero and huge numbers. Stores call it first.
    pub fn validate(&self) -> Result<(), Invalid> {
        if (1..=LEASE_BATCH_MAX).contains(&self.max) {
            return Ok(());
        }
        let problem = Problem::OutOfRange { value: self.max.into(), min: 1, max: LEASE_BATCH_MAX.into() };
        Err(Invalid::new("max", problem))
    }
}
