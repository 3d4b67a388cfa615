//! Schedules as stored (seed 004's job definitions): a trigger, a task template and policies.

mod stored;
mod valid;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weaver_core::id::{TaskId, Version};
use weaver_core::name::Namespace;
use weaver_core::retry::RetryPolicy;
use weaver_core::task::Dispatch;
use weaver_core::time::Timestamp;

use crate::calendar::ScheduleSpec;
use crate::misfire::Misfire;

pub(crate) use stored::{PendingRun, Stored};
pub(crate) use valid::{check, check_text};

/// The kind of the documents that store schedules.
pub const DEFINITION_KIND: &str = "job_definition";
/// The kind of the documents that index schedules by event type: `{event_type}/{name}`.
pub const TRIGGER_KIND: &str = "job_trigger";
/// The longest name of a schedule, in bytes: it is part of its runs' idempotency keys.
pub const DEFINITION_NAME_MAX_BYTES: usize = 80;
/// The longest event type, in bytes.
pub const EVENT_TYPE_MAX_BYTES: usize = 100;
/// The largest payload of a task template, in bytes of JSON.
pub const TEMPLATE_PAYLOAD_MAX_BYTES: usize = 128 * 1024;
/// The label of every run, with the name of its schedule as value.
pub const DEFINITION_LABEL: &str = "job_definition";

/// A schedule as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionSpec {
    /// Whether it creates runs; default true.
    #[serde(default = "enabled_by_default")]
    pub enabled: bool,
    /// When it fires: by time or for events.
    pub trigger: Trigger,
    /// The template of its tasks.
    pub task: TaskTemplate,
    /// What happens when the last run has not ended; default `allow`.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Which missed runs are caught up on; default `run_once`.
    #[serde(default)]
    pub misfire: Misfire,
    /// Whether workers pull its runs or a leader assigns them; if absent, as their queue says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
}

impl DefinitionSpec {
    /// An enabled schedule with default policies.
    pub fn new(trigger: Trigger, task: TaskTemplate) -> Self {
        Self {
            enabled: true,
            trigger,
            task,
            concurrency_policy: ConcurrencyPolicy::default(),
            misfire: Misfire::default(),
            dispatch: None,
        }
    }

    /// The same with a time trigger.
    pub fn timed(schedule: ScheduleSpec, task: TaskTemplate) -> Self {
        Self::new(Trigger::Time(schedule), task)
    }

    /// The same with an event trigger: one run per event of the type.
    pub fn on_event(event_type: impl Into<String>, task: TaskTemplate) -> Self {
        Self::new(Trigger::Event { event_type: event_type.into() }, task)
    }

    /// Sets the policy for concurrent runs; default [`ConcurrencyPolicy::Allow`].
    #[must_use]
    pub fn concurrency(self, policy: ConcurrencyPolicy) -> Self {
        Self { concurrency_policy: policy, ..self }
    }

    /// Sets the policy for missed runs; default [`Misfire::RunOnce`].
    #[must_use]
    pub fn misfire(self, misfire: Misfire) -> Self {
        Self { misfire, ..self }
    }
}

/// What makes a schedule fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Trigger {
    /// Time: `{"kind": "time", "schedule": "daily at 02:30", "tz": "Europe/Berlin"}`.
    Time(ScheduleSpec),
    /// Events: `{"kind": "event", "event_type": "order.paid"}`.
    Event {
        /// Compared exactly; at most [`EVENT_TYPE_MAX_BYTES`].
        event_type: String,
    },
}

/// The template of a schedule's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTemplate {
    /// The task type, which selects the handler.
    #[serde(rename = "type")]
    pub task_type: String,
    /// The payload of the task. `null` with an event trigger: the event, as `{"id", "type", "payload"}`.
    #[serde(default)]
    pub payload: Value,
    /// The field of the payload that is set to the event; the payload must be an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_field: Option<String>,
    /// The queue; default `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// 0 (most urgent) to 9; default by task type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// How long one attempt may take, in milliseconds; default no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Failed attempts before the task is dead; default by task type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Lost attempts (lease expiry) that are retried; the next one makes the task dead. Default by task type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    /// The retry policy after a failed attempt; default by task type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<RetryPolicy>,
    /// Labels of its runs, besides [`DEFINITION_LABEL`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl TaskTemplate {
    /// A template with a `null` payload and the defaults of the task type.
    pub fn new(task_type: impl Into<String>) -> Self {
        Self {
            task_type: task_type.into(),
            payload: Value::Null,
            event_field: None,
            queue: None,
            priority: None,
            timeout_ms: None,
            max_attempts: None,
            max_losses: None,
            backoff: None,
            labels: BTreeMap::new(),
        }
    }

    /// Sets the payload; default `null`.
    #[must_use]
    pub fn payload(self, payload: Value) -> Self {
        Self { payload, ..self }
    }

    /// Sets the queue; default `default`.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..self }
    }
}

/// What happens when a schedule fires and its last run has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConcurrencyPolicy {
    /// No run is created, and a notice is written.
    Forbid,
    /// Runs may be concurrent.
    #[default]
    Allow,
    /// The run that has not ended is cancelled.
    Replace,
}

/// A stored schedule with the scheduler's state of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its runs are in the same namespace.
    pub namespace: Namespace,
    /// Unique in its namespace; at most [`DEFINITION_NAME_MAX_BYTES`].
    pub name: String,
    /// Grows when a client changes it; a fire does not change it.
    pub version: Version,
    /// As it was last written.
    #[serde(flatten)]
    pub spec: DefinitionSpec,
    /// The next fire; `None`: disabled, finished, or an event trigger.
    pub next_fire_at: Option<Timestamp>,
    /// The instant of the last fire that created a run.
    pub last_fire_at: Option<Timestamp>,
    /// Its last runs, newest last; at most [`RUNS_SHOWN_MAX`]. Those of events only if the concurrency policy
    /// needs them: all runs are found by [`DEFINITION_LABEL`].
    pub last_runs: Vec<TaskId>,
    /// The last fire or event that did not simply create a run.
    pub last_notice: Option<Notice>,
    /// When it was added, by the clock of the node that added it.
    pub created_at: Timestamp,
    /// When it was last written, by a client or by a fire.
    pub updated_at: Timestamp,
}

/// The most entries in [`Definition::last_runs`].
pub const RUNS_SHOWN_MAX: usize = 8;

/// A fire or event that did not simply create a run, and the reason. Also an entry of the journal stream
/// [`NOTICES_STREAM`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When it was decided, by the clock of the node that decided.
    pub at: Timestamp,
    /// The name of the schedule.
    pub definition: String,
    /// What happened instead. Stored as `what`.
    #[serde(rename = "what")]
    pub kind: NoticeKind,
    /// How many fires or events got no run of their own.
    pub count: u64,
    /// Whether `count` is exact or a lower bound.
    pub is_exact: bool,
    /// The reason, for people. Stored as `why`.
    #[serde(rename = "why")]
    pub reason: String,
}

/// What happened to fires or events without a run of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Merged into one later run.
    Merged,
    /// They have no run.
    Skipped,
    /// A run was cancelled in favour of a newer one.
    Replaced,
    /// The store refused the task as invalid.
    Refused,
    /// The schedule cannot be parsed any more, and was disabled.
    Unreadable,
}

/// The journal stream of a namespace's [`Notice`]s, as JSON, one per entry.
pub const NOTICES_STREAM: &str = "schedules";

fn enabled_by_default() -> bool {
    true
}
