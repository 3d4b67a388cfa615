//! Workers: heartbeats, deregistration and directives.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::error::Invalid;
use weaver_core::name::{Namespace, TaskType, WorkerId};
use weaver_core::ports;
use weaver_core::ports::{Directive, RunnerKey, RunnerStatus as WorkerStatus};
use weaver_core::time::Timestamp;

use super::lease::names;
use super::names::{default_name, to_ms};

/// Heartbeats of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// One per worker and namespace.
    pub heartbeats: Vec<Heartbeat>,
}

/// A worker reports that it is alive, and what it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The namespace it serves; default: `default`.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Unique in the namespace; the `worker` of its leases.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker_id: String,
    /// The project directory of an agent runner (`weaver runner`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_root: Option<String>,
    /// When the worker process started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// The queues it leases from.
    pub queues: Vec<String>,
    /// The task types it has handlers for; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Tasks it can run at once.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub capacity: u32,
    /// Tasks it runs now.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub running: u32,
    /// It leases nothing new and finishes what runs.
    #[serde(default)]
    pub draining: bool,
    /// How often it sends a heartbeat: after five intervals of silence nothing is assigned to it. Absent: two
    /// minutes of silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub every_ms: Option<u64>,
}

impl From<&ports::Beat> for Heartbeat {
    fn from(beat: &ports::Beat) -> Self {
        let types = |names: &Vec<TaskType>| names.iter().map(ToString::to_string).collect();
        Self {
            namespace: beat.key.namespace.to_string(),
            worker_id: beat.key.runner_id.to_string(),
            project_root: beat.project_root.clone(),
            started_at: beat.started_at,
            queues: beat.queues.iter().map(ToString::to_string).collect(),
            types: beat.types.as_ref().map(types),
            capacity: beat.capacity,
            running: beat.running,
            draining: beat.draining,
            every_ms: beat.every.map(to_ms),
        }
    }
}

impl TryFrom<Heartbeat> for ports::Beat {
    type Error = Invalid;

    fn try_from(heartbeat: Heartbeat) -> Result<Self, Invalid> {
        Ok(Self {
            key: RunnerKey {
                namespace: Namespace::new(heartbeat.namespace)?,
                runner_id: WorkerId::new(heartbeat.worker_id)?,
            },
            project_root: heartbeat.project_root,
            started_at: heartbeat.started_at,
            queues: names(&heartbeat.queues)?,
            types: heartbeat.types.map(|types| names(&types)).transpose()?,
            capacity: heartbeat.capacity,
            running: heartbeat.running,
            draining: heartbeat.draining,
            every: heartbeat.every_ms.map(Duration::from_millis),
        })
    }
}

/// Directives, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatResponse {
    /// One for each heartbeat.
    pub directives: Vec<Directive>,
}

/// Deregisters workers that are shutting down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DeregisterRequest {
    /// Each is listed as stopped from now on; repeating it is harmless.
    pub workers: Vec<WorkerRef>,
}

/// Identifies a worker in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerRef {
    /// The namespace it serves; default: `default`.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// As in its heartbeats.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker_id: String,
}

impl TryFrom<WorkerRef> for RunnerKey {
    type Error = Invalid;

    fn try_from(worker: WorkerRef) -> Result<Self, Invalid> {
        Ok(Self { namespace: Namespace::new(worker.namespace)?, runner_id: WorkerId::new(worker.worker_id)? })
    }
}

/// What a worker does from its next heartbeat on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DirectiveRequest {
    /// Stays until it is replaced; every heartbeat returns it.
    pub directive: Directive,
}

/// A worker, running or stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worker {
    /// The last heartbeat it sent.
    pub heartbeat: Heartbeat,
    /// When the store received it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_heartbeat_at: Timestamp,
    /// `stopped` once it deregistered, or sent no heartbeat for 120 s.
    pub status: WorkerStatus,
    /// Whether it sent a heartbeat within the last 120 s and has not deregistered.
    pub alive: bool,
    /// What its heartbeats are answered with.
    pub directive: Directive,
}
