//! Heartbeats, liveness and directives of workers. "Runner" is seed 000's word for them in this port.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::ports::{Cursor, Page};
use crate::time::Timestamp;

/// A runner without a heartbeat for this long counts as stopped (seed 000).
pub const ALIVE_WITHIN: Duration = Duration::from_secs(120);

/// Heartbeats of workers, and the directives they get in return.
///
/// # Contract
/// - A heartbeat is timestamped with the store's clock (the caller's, where the store has none).
/// - A directive stays until it is replaced: every heartbeat returns the current one, so none is missed.
/// - Liveness is for operators and for assignment. No lease expires because a heartbeat is late (G3 depends
///   on leases only).
/// - **G9** A runner serves, and is listed in, one namespace; a worker of several sends a heartbeat to each.
#[async_trait]
pub trait Runners: Send + Sync {
    /// Records heartbeats; returns the current directive of each.
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>>;

    /// Sets the directive that a runner gets with its next heartbeat. It is kept for a runner that is not
    /// registered yet.
    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()>;

    /// The runners of a namespace, by id, stopped ones included.
    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>>;

    /// Deregisters a runner: marks it stopped. Can be repeated.
    async fn stop_runner(&self, key: &RunnerKey) -> Result<()>;
}

/// The identity of a runner: one id may run in several namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunnerKey {
    /// The namespace it serves.
    pub namespace: Namespace,
    /// Unique among the live workers of the namespace.
    pub runner_id: WorkerId,
}

/// A heartbeat: what a worker reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// The runner that sends it.
    pub key: RunnerKey,
    /// The directory of the project that an agent runner works on.
    pub project_root: Option<String>,
    /// When its process started, by its own clock.
    pub started_at: Timestamp,
    /// The queues it serves, at most [`NAMES_MAX`](Self::NAMES_MAX).
    pub queues: Vec<QueueName>,
    /// The types it serves; `None`: any.
    pub types: Option<Vec<TaskType>>,
    /// How many tasks it can run at once.
    pub capacity: u32,
    /// How many tasks it runs now.
    pub running: u32,
    /// Whether it leases no further tasks.
    pub draining: bool,
    /// How often it is sent. `None`: it does not say; then the worker counts as alive for [`ALIVE_WITHIN`].
    pub every: Option<Duration>,
}

impl Beat {
    /// The most queues, and the most types, of a heartbeat.
    pub const NAMES_MAX: usize = 1000;

    /// Refuses heartbeats larger than every store can keep. Stores call it first.
    pub fn validate(&self) -> Result<(), Invalid> {
        let types = self.types.as_ref().map_or(0, Vec::len);
        for (field, value) in [("queues", self.queues.len()), ("types", types)] {
            if value > Self::NAMES_MAX {
                let (value, max) = (value as u64, Self::NAMES_MAX as u64);
                return Err(Invalid::new(field, Problem::OutOfRange { value, min: 0, max }));
            }
        }
        let bytes = self.project_root.as_ref().map_or(0, String::len);
        if bytes > Self::PROJECT_ROOT_MAX_BYTES {
            let problem = Problem::TooLong { bytes, max_bytes: Self::PROJECT_ROOT_MAX_BYTES };
            return Err(Invalid::new("project_root", problem));
        }
        Ok(())
    }

    /// Silence after which its worker counts as gone for assignment: five heartbeats, at least 5 s, at most
    /// [`ALIVE_WITHIN`].
    pub fn expires_after(&self) -> Duration {
        let every = self.every.unwrap_or(ALIVE_WITHIN);
        every.saturating_mul(5).clamp(Self::EXPIRES_AFTER_MIN, ALIVE_WITHIN)
    }

    /// The shortest [`expires_after`](Self::expires_after): a shorter silence is a pause of the process.
    pub const EXPIRES_AFTER_MIN: Duration = Duration::from_secs(5);

    /// The longest `project_root`, in bytes.
    pub const PROJECT_ROOT_MAX_BYTES: usize = 4096;
}

/// What a runner should do from its next heartbeat on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Lease and run tasks.
    #[default]
    Run,
    /// Lease no further tasks and finish the running ones.
    Drain,
    /// Finish the running tasks and exit.
    Stop,
    /// Take nothing new and have nothing assigned, until it is attached again: `run`.
    Detach,
}

impl Directive {
    /// Every directive.
    pub const ALL: [Self; 4] = [Self::Run, Self::Drain, Self::Stop, Self::Detach];

    /// The word for it in JSON and storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Drain => "drain",
            Self::Stop => "stop",
            Self::Detach => "detach",
        }
    }

    /// The directive of a stored word; one that a newer node wrote leaves the worker running.
    pub fn of_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|directive| directive.as_str() == word).unwrap_or_default()
    }
}

/// What is known about a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerRecord {
    /// What its last heartbeat reported.
    pub beat: Beat,
    /// When that was received, by the store's clock.
    pub last_heartbeat: Timestamp,
    /// Whether it deregistered; see [`status_at`](Self::status_at) for liveness.
    pub status: RunnerStatus,
    /// The directive that its next heartbeat returns.
    pub directive: Directive,
}

/// Whether a worker is running or has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerStatus))]
#[serde(rename_all = "snake_case")]
pub enum RunnerStatus {
    /// It has not deregistered.
    Running,
    /// It deregistered, or sent no heartbeat for two minutes.
    Stopped,
}

impl RunnerRecord {
    /// Whether it has not deregistered and sent a heartbeat within [`ALIVE_WITHIN`].
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.status == RunnerStatus::Running && now.since(self.last_heartbeat) < ALIVE_WITHIN
    }

    /// Its status for readers: without a heartbeat for [`ALIVE_WITHIN`] it is stopped, deregistered or not
    /// (seed 000).
    pub fn status_at(&self, now: Timestamp) -> RunnerStatus {
        if self.is_alive(now) { RunnerStatus::Running } else { RunnerStatus::Stopped }
    }

    /// Whether it leases tasks of this queue and type: it neither drains nor stops.
    pub fn serves(&self, queue: &QueueName, task_type: &TaskType) -> bool {
        self.beat.queues.contains(queue)
            && self.beat.types.as_ref().is_none_or(|types| types.contains(task_type))
            && !self.beat.draining
            && self.directive == Directive::Run
    }
}
