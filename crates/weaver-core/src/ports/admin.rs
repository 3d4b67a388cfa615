//! Administration: queues, retention, namespaces.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::id::Version;
use crate::name::{Namespace, QueueName};
use crate::ports::{Cursor, Page};
use crate::task::{Dispatch, TaskState};

/// Settings of queues, purging and namespaces.
///
/// # Contract
/// - **G9** A rule or setting touches only the namespace it names.
/// - [`put_queue`](Admin::put_queue) writes only if what is there is what the caller expects, else
///   [`Error::Conflict`](crate::error::Error::Conflict). It takes effect for every lease call that begins
///   afterwards.
/// - [`purge_tasks`](Admin::purge_tasks) removes terminal records without a hold, and nothing else (G4: what
///   has ended stays as it ended until it is removed). It can be repeated, and called concurrently.
#[async_trait]
pub trait Admin: Send + Sync {
    /// The queues of a namespace that have tasks or settings, by name.
    async fn list_queues(&self, namespace: &Namespace) -> Result<Vec<QueueInfo>>;

    /// Changes the settings of a queue, which need not have tasks yet.
    async fn put_queue(
        &self,
        namespace: &Namespace,
        queue: &QueueName,
        settings: QueueSettings,
        expect: Expect,
    ) -> Result<Version>;

    /// Removes finished tasks with their logs, at most `limit` of them.
    async fn purge_tasks(&self, rule: PurgeRule, limit: u32) -> Result<Purged>;

    /// The namespaces that have any records, by name.
    async fn list_namespaces(&self, cursor: Option<Cursor>, limit: u32) -> Result<Page<Namespace>>;
}

/// What can be set about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSettings {
    /// No task of it is leased or assigned; running ones continue.
    pub paused: bool,
    /// Its concurrency limit over all workers, at least 1; `None`: no limit.
    pub max_running: Option<u32>,
    /// Who chooses the workers of its tasks that do not say so themselves. A change counts for every task
    /// that has not been leased or assigned.
    pub dispatch: Dispatch,
}

impl QueueSettings {
    /// Refuses a concurrency limit of 0. Stores call it first.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.max_running == Some(0) {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: u32::MAX.into() };
            return Err(Invalid::new("max_running", problem));
        }
        Ok(())
    }
}

/// A queue with its settings and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// Unique in its namespace.
    pub name: QueueName,
    /// The defaults if nothing was ever set.
    pub settings: QueueSettings,
    /// The version of the settings; 0 if nothing was ever set.
    pub version: Version,
    /// Slots taken: tasks that are assigned, orphaned, running or under a cancellation hold. Exact for a
    /// queue with a concurrency limit; for others as good as the store's counts.
    pub occupied: u64,
}

/// The condition of a write (compare-and-set).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No condition: the last writer wins.
    Anything,
    /// Nothing is stored under the key.
    Absent,
    /// The stored version is this one.
    Version(Version),
}

impl Expect {
    /// Whether the condition holds for the stored version; `None`: nothing is stored.
    pub fn is_met(self, found: Option<Version>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
        }
    }

    /// [`Error::Conflict`](crate::error::Error::Conflict) for a condition that does not hold; `what` names
    /// the object.
    pub fn conflict(self, what: String, found: Option<Version>) -> crate::error::Error {
        let expected = match self {
            Self::Anything => "any version".to_owned(),
            Self::Absent => "nothing".to_owned(),
            Self::Version(version) => version.to_string(),
        };
        crate::error::Error::Conflict { what, expected, found: found.unwrap_or_default() }
    }
}

/// Which finished tasks to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRule {
    /// Only of this namespace; `None`: of all (retention).
    pub namespace: Option<Namespace>,
    /// Only of this queue; `None`: of all.
    pub queue: Option<QueueName>,
    /// Only those that ended in this state; `None`: in any terminal one.
    pub state: Option<TaskState>,
    /// Only those that ended at least this long ago, by the store's clock.
    pub finished_for: Duration,
}

impl PurgeRule {
    /// Refuses rules about tasks that have not ended. Stores call it first.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self.state {
            Some(state) if !state.is_terminal() => {
                let reason = format!("{state} is not a terminal state: only finished tasks are purged");
                Err(Invalid::new("state", Problem::Undecodable { reason }))
            }
            _ => Ok(()),
        }
    }
}

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// How many tasks were removed, at most the caller's limit.
    pub count: u32,
    /// Whether more may match: repeat the call.
    pub more: bool,
}
