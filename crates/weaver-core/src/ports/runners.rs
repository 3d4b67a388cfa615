//! Who is there to do the work.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem, Result};
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::ports::{Cursor, Page};
use crate::time::Timestamp;

/// A runner that has not beaten for this long is taken for stopped (seed 000).
pub const ALIVE_WITHIN: Duration = Duration::from_secs(120);

/// Heartbeats of workers and runners, and what they are told in return.
///
/// # Contract
/// - A beat is stamped with the store's clock (the caller's, where the store has none).
/// - A directive stays until it is replaced: every beat returns the current one, so none is missed.
/// - Liveness is for people and for assignment. Nobody's lease ends because a beat is late (G3 rests on
///   leases).
/// - **G9** A runner serves, and is listed in, one namespace; a worker of several beats in each.
#[async_trait]
pub trait Runners: Send + Sync {
    /// Says that runners are alive; answers what each should do.
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>>;

    /// Tells a runner what to do from its next beat on. Telling one that is not there is remembered for when
    /// it comes.
    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()>;

    /// The runners of a namespace, by id, stopped ones included.
    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>>;

    /// A runner says goodbye. Can be repeated.
    async fn stop_runner(&self, key: &RunnerKey) -> Result<()>;
}

/// A runner's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunnerKey {
    /// The namespace it serves.
    pub namespace: Namespace,
    /// Its own name.
    pub runner_id: WorkerId,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Whose.
    pub key: RunnerKey,
    /// The project a prompt runner works on.
    pub project_root: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// The queues it serves.
    pub queues: Vec<QueueName>,
    /// The types it serves; `None`: any.
    pub types: Option<Vec<TaskType>>,
    /// How many tasks it can run at once.
    pub capacity: u32,
    /// How many it runs.
    pub running: u32,
    /// Whether it takes nothing new.
    pub draining: bool,
}

impl Beat {
    /// The most queues, and the most types, a beat may name.
    pub const NAMES_MAX: usize = 1000;

    /// Refuses beats larger than any store's record of a runner. Stores call it first.
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

    /// The longest path of a project.
    pub const PROJECT_ROOT_MAX_BYTES: usize = 4096;
}

/// What a runner is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Go on.
    #[default]
    Run,
    /// Take nothing new; finish what runs.
    Drain,
    /// Finish and exit.
    Stop,
}

/// What is known about a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerRecord {
    /// Its last sign of life.
    pub beat: Beat,
    /// When that came.
    pub last_heartbeat: Timestamp,
    /// Whether it said goodbye.
    pub status: RunnerStatus,
    /// What it is told.
    pub directive: Directive,
}

/// Whether a runner said goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunnerStatus {
    /// It has not.
    Running,
    /// It has.
    Stopped,
}

impl RunnerRecord {
    /// Whether it runs and has beaten within [`ALIVE_WITHIN`].
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.status == RunnerStatus::Running && now.since(self.last_heartbeat) < ALIVE_WITHIN
    }

    /// How it reads to others: one that has been silent for [`ALIVE_WITHIN`] is stopped, goodbye or not (seed
    /// 000).
    pub fn status_at(&self, now: Timestamp) -> RunnerStatus {
        if self.is_alive(now) { RunnerStatus::Running } else { RunnerStatus::Stopped }
    }

    /// Whether it would take a task of this queue and type.
    pub fn serves(&self, queue: &QueueName, task_type: &TaskType) -> bool {
        self.beat.queues.contains(queue)
            && self.beat.types.as_ref().is_none_or(|types| types.contains(task_type))
            && !self.beat.draining
            && self.directive == Directive::Run
    }
}
