//! A task as the server shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::task::{AttemptOutcome, Cause, TaskState};
use weaver_core::time::Timestamp;

use super::{Json, RetryPolicy, Trace};

/// A task and how it is going.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Task {
    /// Its namespace.
    pub namespace: String,
    /// Its id.
    pub id: String,
    /// Its own name, if somebody else's client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// What kind of work it is.
    pub task_type: String,
    /// The queue it waits in.
    pub queue: String,
    /// The payload: JSON, or with another `content_type` a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The payload in hexadecimal digits, if it is not text, or not the JSON it claims to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_hex: Option<String>,
    /// The form of the payload.
    pub content_type: String,
    /// From 0, the most urgent, to 9.
    pub priority: u8,
    /// Dead on this failure.
    pub max_attempts: u32,
    /// Dead on the loss after these.
    pub max_losses: u32,
    /// How long to wait after a failure.
    pub retry: RetryPolicy,
    /// How long one execution may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Cancelled if it has not started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Runs one at a time with others of this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_key: Option<String>,
    /// Enqueued once per key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The piece of work it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_group_id: Option<String>,
    /// The conversation it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whatever its producer wants to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The job definition it is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_definition_id: Option<String>,
    /// The planned instant it is the run for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub scheduled_for: Option<Timestamp>,
    /// The task it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// The trace of whoever enqueued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Where it is in its life.
    pub state: TaskState,
    /// Why it waits again, died or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::cause")]
    pub cause: Option<Cause>,
    /// Grows with every move.
    pub version: u64,
    /// Grows with every renewal of its lease.
    pub renewals: u64,
    /// How often a handler was started.
    pub executions: u32,
    /// How often one failed or timed out.
    pub failures: u32,
    /// How often a worker vanished with it.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
    /// When it became or becomes due.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ready_at: Timestamp,
    /// When it was accepted.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it last moved.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
    /// When it first started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub first_started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
    /// What the last failed attempt reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Who runs it, or has yet to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<HeldLease>,
    /// Whom a leader gave it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
    /// Its worker is finding out if it may go on, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub check_deadline_at: Option<Timestamp>,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    /// What it returned, if that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_hex: Option<String>,
    /// How far it says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Its last attempts that ended, oldest first.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

/// A lease as others may see it: without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeldLease {
    /// Who holds it.
    pub worker: String,
    /// The leader's epoch it started under; 0 for pull.
    pub epoch: u64,
    /// When the handler was started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// When it ends unless renewed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// How long each renewal lasts.
    pub ttl_ms: u64,
}

/// A leader's decision who runs a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// Who.
    pub worker: String,
    /// In which term.
    pub epoch: u64,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub assigned_at: Timestamp,
}

/// How far a handler says it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f32,
    /// In words.
    #[serde(default)]
    pub message: String,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// Who had it.
    pub worker: String,
    /// The task's version while it ran.
    pub fence: u64,
    /// When the handler started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last attempts of a task that ended, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct History {
    /// How often it was leased or assigned in all.
    pub attempt: u32,
    /// The last of them that ended.
    pub attempts: Vec<Attempt>,
}
