//! Workers and runners: signs of life, and what they are told.

use serde::{Deserialize, Serialize};
use weaver_core::error::Invalid;
use weaver_core::name::{Namespace, TaskType, WorkerId};
use weaver_core::ports;
use weaver_core::ports::{Directive, RunnerKey, RunnerStatus};
use weaver_core::time::Timestamp;

use super::lease::names;
use super::names::default_name;

/// Signs of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BeatRequest {
    /// One per runner and namespace.
    pub beats: Vec<Beat>,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// The namespace it serves; `default` if not given.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Its own name.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub runner_id: String,
    /// The project a prompt runner works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_root: Option<String>,
    /// When it started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The types it serves; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// How many tasks it can run at once.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub capacity: u32,
    /// How many it runs.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub running: u32,
    /// Whether it takes nothing new.
    #[serde(default)]
    pub draining: bool,
}

impl From<&ports::Beat> for Beat {
    fn from(beat: &ports::Beat) -> Self {
        let types = |names: &Vec<TaskType>| names.iter().map(ToString::to_string).collect();
        Self {
            namespace: beat.key.namespace.to_string(),
            runner_id: beat.key.runner_id.to_string(),
            project_root: beat.project_root.clone(),
            started_at: beat.started_at,
            queues: beat.queues.iter().map(ToString::to_string).collect(),
            types: beat.types.as_ref().map(types),
            capacity: beat.capacity,
            running: beat.running,
            draining: beat.draining,
        }
    }
}

impl TryFrom<Beat> for ports::Beat {
    type Error = Invalid;

    fn try_from(beat: Beat) -> Result<Self, Invalid> {
        Ok(Self {
            key: RunnerKey {
                namespace: Namespace::new(beat.namespace)?,
                runner_id: WorkerId::new(beat.runner_id)?,
            },
            project_root: beat.project_root,
            started_at: beat.started_at,
            queues: names(&beat.queues)?,
            types: beat.types.map(|types| names(&types)).transpose()?,
            capacity: beat.capacity,
            running: beat.running,
            draining: beat.draining,
        })
    }
}

/// What each runner should do, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BeatResponse {
    /// One for each.
    pub directives: Vec<Directive>,
}

/// Runners say goodbye.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// Which.
    pub runners: Vec<RunnerRef>,
}

/// A runner's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunnerRef {
    /// The namespace it serves; `default` if not given.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Its own name.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub runner_id: String,
}

impl TryFrom<RunnerRef> for RunnerKey {
    type Error = Invalid;

    fn try_from(runner: RunnerRef) -> Result<Self, Invalid> {
        Ok(Self { namespace: Namespace::new(runner.namespace)?, runner_id: WorkerId::new(runner.runner_id)? })
    }
}

/// What a runner is to do from its next beat on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DirectRequest {
    /// The directive.
    pub directive: Directive,
}

/// What is known about a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Runner {
    /// Its last sign of life.
    pub beat: Beat,
    /// When that came.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_heartbeat: Timestamp,
    /// Stopped if it said goodbye, or has been silent for 120 s.
    pub status: RunnerStatus,
    /// Whether it runs and has beaten lately.
    pub alive: bool,
    /// What it is told.
    pub directive: Directive,
}
