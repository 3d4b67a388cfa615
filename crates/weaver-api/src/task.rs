//! A task as the API shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::task::{AttemptOutcome, Cause, Dispatch, TaskState};
use weaver_core::time::Timestamp;

use super::{Json, RetryPolicy, Trace};

/// A task: what was enqueued, its state and its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Task {
    /// The namespace it is in.
    pub namespace: String,
    /// Unique in its namespace: decimal digits, or as another client wrote it (`external_id`).
    pub id: String,
    /// Its id in the system that wrote it, if that was not Weaver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Selects the handler; a worker serves some types.
    pub task_type: String,
    /// The queue it was enqueued in.
    pub queue: String,
    /// The payload: JSON, or a string for another `content_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The payload in hexadecimal digits, if it is not text, or not the JSON it claims to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_hex: Option<String>,
    /// The media type of the payload.
    pub content_type: String,
    /// From 0, the most urgent, to 9.
    pub priority: u8,
    /// Failed attempts before it is dead.
    pub max_attempts: u32,
    /// Lost attempts (lease expired) that it survives.
    pub max_losses: u32,
    /// Backoff after a failed attempt.
    pub retry: RetryPolicy,
    /// How long one attempt may take; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// It is cancelled if it has not started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Tasks with the same key in the namespace run one at a time, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_key: Option<String>,
    /// The key it was enqueued with; one task per key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The task group it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_group_id: Option<String>,
    /// The conversation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// For finding it, as its producer set them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The schedule that produced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_definition_id: Option<String>,
    /// The instant of the schedule that it is the run for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub scheduled_for: Option<Timestamp>,
    /// The task it retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Whether workers pull it or a leader assigns it; absent: as its queue says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
    /// The trace context of the caller that enqueued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// `retry_scheduled` waits for a retry; `succeeded`, `dead` and `cancelled` are final.
    pub state: TaskState,
    /// Why it waits for a retry, is dead or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::cause")]
    pub cause: Option<Cause>,
    /// Grows with every change of state.
    pub version: u64,
    /// Grows with every renewal of its lease.
    pub renewals: u64,
    /// How often a handler was started.
    pub executions: u32,
    /// Attempts that failed or timed out.
    pub failures: u32,
    /// Attempts that were lost: the lease expired without a report.
    pub losses: u32,
    /// How often it was leased or assigned.
    pub attempt: u32,
    /// When it became or becomes due.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ready_at: Timestamp,
    /// When it was enqueued.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When its state last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
    /// When its first attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub first_started_at: Option<Timestamp>,
    /// When it reached its final state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
    /// The error of the last failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The lease it runs under; of a cancelled task, its cancellation hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<HeldLease>,
    /// The worker that the leader assigned it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Assignment>,
    /// Its worker is confirming that it may continue: the lease lasts at least until this deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub check_deadline_at: Option<Timestamp>,
    /// What the handler returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub result: Option<Json>,
    /// What the handler returned in hexadecimal digits, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_hex: Option<String>,
    /// The last progress that the handler reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The last attempts that ended, oldest first.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

/// A lease as others may see it: without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeldLease {
    /// The worker that holds it.
    pub worker: String,
    /// The leader's epoch under which the attempt started; 0 for pull dispatch.
    pub epoch: u64,
    /// When the handler was started.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// When it expires unless renewed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// How long it lasts after each renewal.
    pub ttl_ms: u64,
}

/// A leader's decision which worker runs a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignment {
    /// The worker's id, as in its heartbeats.
    pub worker: String,
    /// The epoch of the leader that decided.
    pub epoch: u64,
    /// When the leader decided.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub assigned_at: Timestamp,
}

/// Progress that a handler reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f32,
    /// For people; empty if absent.
    #[serde(default)]
    pub message: String,
}

/// An attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its number, counted from 1.
    pub attempt: u32,
    /// The worker that held the lease.
    pub worker: String,
    /// The fencing token: the task's version while the attempt ran.
    pub fence: u64,
    /// When the handler started; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
    /// When the outcome was recorded.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ended_at: Timestamp,
    /// `lost`: the lease expired without a report.
    pub outcome: AttemptOutcome,
    /// The error it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last attempts of a task that ended, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct History {
    /// How often it was leased or assigned in all.
    pub attempt: u32,
    /// Older ones are dropped.
    pub attempts: Vec<Attempt>,
}
