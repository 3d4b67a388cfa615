//! Schedules: tasks by the clock, or for events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::task::Dispatch;
use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{Fold, Gap};
use weaver_scheduler::definition::ConcurrencyPolicy;
use weaver_scheduler::misfire::Misfire;

use super::{Json, RetryPolicy};

/// The definition of a schedule, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Whether it produces tasks; default `true`.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// A time or an event.
    pub trigger: Trigger,
    /// The task of each run.
    pub task: TaskTemplate,
    /// What happens while the previous task has not ended; default `allow`.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// What happens to missed runs, when no scheduler was running; default `run_once`.
    #[serde(default)]
    pub misfire: Misfire,
    /// Whether workers pull its tasks or a leader assigns them; absent: as their queue says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
}

/// What starts a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Trigger {
    /// A cron expression, an interval or an instant.
    Time {
        /// `every 5m`, `daily at 02:30`, `once at 2026-03-29T02:30`, or a cron expression of five fields, or
        /// six with seconds first.
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        schedule: String,
        /// The IANA name of the time zone; required where times of day are named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        tz: Option<String>,
        /// DST gap: what happens to a time that does not exist because clocks are set forward.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap: Option<Gap>,
        /// DST fold: what happens to a time that occurs twice because clocks are set back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fold: Option<Fold>,
    },
    /// Emitted events (`POST /api/v1/events`).
    Event {
        /// Events of exactly this type.
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        event_type: String,
    },
}

/// The task that each run enqueues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskTemplate {
    /// Selects the handler, as for any task.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_type: String,
    /// Any JSON. For an event trigger, `null` or nothing means the event itself: `{"id", "type", "payload"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The payload field that receives the event; the payload must be an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_field: Option<String>,
    /// The queue; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub queue: Option<String>,
    /// From 0, the most urgent, to 9. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub priority: Option<u8>,
    /// How long one attempt may take; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub timeout_ms: Option<u64>,
    /// Failed attempts before the task is dead. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub max_attempts: Option<u32>,
    /// Lost attempts (lease expired) that the task survives. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub max_losses: Option<u32>,
    /// Backoff after a failed attempt. If absent, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// For finding its tasks, beside `job_definition`, which names the schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Creates or replaces a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    /// Optimistic concurrency: the version that was read; the write is refused if it changed since. 0 for a
    /// new schedule.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub expected_version: u64,
    /// Replaces the whole definition.
    pub spec: ScheduleSpec,
}

/// A schedule and its last runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// The namespace of it and its tasks.
    pub namespace: String,
    /// Unique in its namespace.
    pub name: String,
    /// Grows with every edit; runs do not change it.
    pub version: u64,
    /// The definition as of `version`.
    pub spec: ScheduleSpec,
    /// The next scheduled run; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_run_at: Option<Timestamp>,
    /// The scheduled instant of the last run that produced a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_run_at: Option<Timestamp>,
    /// Ids of the last tasks it produced, newest last; at most 8.
    pub last_tasks: Vec<String>,
    /// The last run that was not simply enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_notice: Option<ScheduleNotice>,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When its record was last written, by an edit or a run.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// Runs that were not simply enqueued, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleNotice {
    /// When the scheduler decided.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The name of the schedule.
    pub schedule: String,
    /// What became of the runs: `merged`, `skipped`, `replaced`, `refused`, `unreadable`.
    pub kind: String,
    /// Runs or events that got no task of their own.
    pub count: u64,
    /// `false`: `count` is a lower bound.
    pub is_exact: bool,
    /// For people, in one sentence.
    pub reason: String,
}

/// Selects a part of a namespace's notices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NoticesQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Notices after this `seq`; from the oldest if absent.
    pub after: Option<u64>,
    /// Notices per page; default 50.
    pub limit: Option<u32>,
}

/// Notices of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notices {
    /// At most `limit`, oldest first.
    pub items: Vec<NoticeEntry>,
}

/// A notice in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoticeEntry {
    /// For `after`; grows per namespace.
    pub seq: u64,
    /// What the scheduler decided, and why.
    pub notice: ScheduleNotice,
}

/// Selects schedules by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SchedulesQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Names that begin with this.
    pub prefix: Option<String>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
    /// Items per page; default 50.
    pub limit: Option<u32>,
}

/// Selects the namespace; makes a change conditional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExpectQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Apply only if the schedule still has this version; absent: unconditionally.
    pub expected_version: Option<u64>,
}

/// Selects upcoming runs of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct UpcomingQuery {
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Runs after this instant; default: now.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub from: Option<Timestamp>,
    /// How many; default 10.
    pub count: Option<u32>,
}

/// Asks for the upcoming runs of a schedule without storing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// As in a trigger of kind `time`.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub schedule: String,
    /// The IANA name of the time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub tz: Option<String>,
    /// DST gap: what happens to a time that does not exist because clocks are set forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// DST fold: what happens to a time that occurs twice because clocks are set back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// Runs after this instant; default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub from: Option<Timestamp>,
    /// How many; default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub count: Option<u32>,
}

/// Upcoming runs of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpcomingRuns {
    /// Soonest first. Empty for an event trigger, or if no run is left.
    pub runs: Vec<UpcomingRun>,
}

/// A run that has not happened yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpcomingRun {
    /// The scheduled instant, in UTC.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The same as local time in the schedule's zone; in UTC if it has none.
    pub local: String,
    /// What a DST gap or fold does to it.
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}
