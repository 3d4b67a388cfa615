//! Job definitions: when something happens, and the task that is made of it then.

mod stored;
mod valid;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weaver_core::id::{TaskId, Version};
use weaver_core::name::Namespace;
use weaver_core::retry::RetryPolicy;
use weaver_core::time::Timestamp;

use crate::calendar::ScheduleSpec;
use crate::misfire::Misfire;

pub(crate) use stored::{PendingRun, Stored};
pub(crate) use valid::{check, check_text};

/// The kind of the documents that definitions are.
pub const DEFINITION_KIND: &str = "job_definition";
/// The kind of the documents by which definitions are found for an event type: `{event_type}/{name}`.
pub const TRIGGER_KIND: &str = "job_trigger";
/// The longest name of a definition: the keys of its runs are made of it, and are names themselves.
pub const DEFINITION_NAME_MAX_BYTES: usize = 80;
/// The longest type of an event.
pub const EVENT_TYPE_MAX_BYTES: usize = 100;
/// The largest payload of a template.
pub const TEMPLATE_PAYLOAD_MAX_BYTES: usize = 128 * 1024;
/// The label that every run has, with the name of its definition.
pub const DEFINITION_LABEL: &str = "job_definition";

/// A definition as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionSpec {
    /// Whether it makes runs.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What makes it run.
    pub trigger: Trigger,
    /// The task that is made.
    pub task: TaskTemplate,
    /// What happens when the last run has not ended.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// What happens to fires that nobody was there for.
    #[serde(default)]
    pub misfire: Misfire,
    /// How runs reach workers.
    #[serde(default)]
    pub dispatch: Dispatch,
}

impl DefinitionSpec {
    /// Enabled, with defaults for the rest.
    pub fn new(trigger: Trigger, task: TaskTemplate) -> Self {
        Self {
            enabled: true,
            trigger,
            task,
            concurrency_policy: ConcurrencyPolicy::default(),
            misfire: Misfire::default(),
            dispatch: Dispatch::default(),
        }
    }

    /// By the clock.
    pub fn timed(schedule: ScheduleSpec, task: TaskTemplate) -> Self {
        Self::new(Trigger::Time(schedule), task)
    }

    /// For every event of a type.
    pub fn on_event(event_type: impl Into<String>, task: TaskTemplate) -> Self {
        Self::new(Trigger::Event { event_type: event_type.into() }, task)
    }

    /// With this policy for runs that overlap.
    #[must_use]
    pub fn concurrency(self, policy: ConcurrencyPolicy) -> Self {
        Self { concurrency_policy: policy, ..self }
    }

    /// With this policy for missed fires.
    #[must_use]
    pub fn misfire(self, misfire: Misfire) -> Self {
        Self { misfire, ..self }
    }
}

/// What makes a definition run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Trigger {
    /// The clock: `{"kind": "time", "schedule": "daily at 02:30", "tz": "Europe/Berlin"}`.
    Time(ScheduleSpec),
    /// Events: `{"kind": "event", "event_type": "order.paid"}`.
    Event {
        /// Of this type, exactly.
        event_type: String,
    },
}

/// The task that a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTemplate {
    /// Selects the handler.
    #[serde(rename = "type")]
    pub task_type: String,
    /// What the handler gets. `null` for an event's run: the event itself, as `{"id", "type", "payload"}`.
    #[serde(default)]
    pub payload: Value,
    /// The field of the payload that gets the event, for a payload that is an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_field: Option<String>,
    /// The queue; `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// From 0, the most urgent, to 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// How long one execution may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Dead on this failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Dead on the loss after these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_losses: Option<u32>,
    /// How long to wait after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<RetryPolicy>,
    /// What its runs are found by, beside [`DEFINITION_LABEL`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl TaskTemplate {
    /// A task of this type, with defaults for the rest.
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

    /// With this payload.
    #[must_use]
    pub fn payload(self, payload: Value) -> Self {
        Self { payload, ..self }
    }

    /// In this queue.
    #[must_use]
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..self }
    }
}

/// What happens when a definition should run and its last run has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConcurrencyPolicy {
    /// No run is made, and the log says so.
    Forbid,
    /// Both run.
    #[default]
    Allow,
    /// The one that has not ended is cancelled.
    Replace,
}

/// How runs reach workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// Workers take them.
    #[default]
    Pull,
    /// A leader gives them to workers. Refused until there is one.
    Assign,
}

/// A definition as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Where.
    pub namespace: Namespace,
    /// Its name, unique in its namespace.
    pub name: String,
    /// Grows when people change it, and only then: fires leave it alone.
    pub version: Version,
    /// What it says.
    #[serde(flatten)]
    pub spec: DefinitionSpec,
    /// When it fires next, if it does.
    pub next_fire_at: Option<Timestamp>,
    /// The instant of the last fire that made a run.
    pub last_fire_at: Option<Timestamp>,
    /// Its last runs, the newest last; at most [`RUNS_SHOWN_MAX`]. Those of events only if an overlap policy
    /// needs them: all runs are found by [`DEFINITION_LABEL`].
    pub last_runs: Vec<TaskId>,
    /// What was last decided that was not simply "run it".
    pub last_notice: Option<Notice>,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it was last written, by people or by a fire.
    pub updated_at: Timestamp,
}

/// How many of its last runs a definition knows.
pub const RUNS_SHOWN_MAX: usize = 8;

/// Something that did not go as the schedule says, and why. Also an entry of the journal stream
/// [`NOTICES_STREAM`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When it was decided.
    pub at: Timestamp,
    /// The definition.
    pub definition: String,
    /// What became of the fires.
    pub what: NoticeKind,
    /// How many fires or events got no run of their own.
    pub count: u64,
    /// Whether that is their number, or only a lower bound.
    pub is_exact: bool,
    /// Why, for people.
    pub why: String,
}

/// What became of fires or events that got no run of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// They are part of one later run.
    Merged,
    /// They were left out.
    Skipped,
    /// A run was cancelled in favour of a newer one.
    Replaced,
    /// The store refused the run.
    Refused,
    /// The definition cannot be read.
    Unreadable,
}

/// The stream of a namespace's [`Notice`]s, as JSON, one per entry.
pub const NOTICES_STREAM: &str = "schedules";

fn yes() -> bool {
    true
}
