//! Schedules: what is done when, or when something happens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{Gap, Overlap};
use weaver_scheduler::definition::{ConcurrencyPolicy, Dispatch};
use weaver_scheduler::misfire::Misfire;

use super::{Json, RetryPolicy};

/// What a schedule says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Whether it makes tasks; yes, if not given.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What makes it fire.
    pub trigger: Trigger,
    /// The task that is made.
    pub task: TaskTemplate,
    /// What happens when the last task has not ended; `allow` if not given.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// What happens to fires that nobody was there for; `run_once` if not given.
    #[serde(default)]
    pub misfire: Misfire,
    /// How tasks reach workers; `pull` if not given.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// What makes a schedule fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Trigger {
    /// The clock.
    Time {
        /// `every 5m`, `daily at 02:30`, `once at 2026-03-29T02:30`, or a cron expression of five fields, or
        /// six with seconds first.
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        schedule: String,
        /// The IANA name of the time zone. Needed wherever times of day are named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        tz: Option<String>,
        /// What happens to a time that a clock set forward leaves out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gap: Option<Gap>,
        /// What happens to a time that a clock set back shows twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overlap: Option<Overlap>,
    },
    /// Events.
    Event {
        /// Of this type, exactly.
        #[cfg_attr(feature = "openapi", schema(min_length = 1))]
        event_type: String,
    },
}

/// The task that a fire makes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskTemplate {
    /// Selects the handler.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub task_type: String,
    /// Any JSON. `null` or nothing for a task of an event: the event itself, as `{"id", "type", "payload"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// The field of the payload that gets the event, for a payload that is an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_field: Option<String>,
    /// `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub queue: Option<String>,
    /// From 0, the most urgent, to 9. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub priority: Option<u8>,
    /// How long one execution may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub timeout_ms: Option<u64>,
    /// Failed attempts before the task is dead. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub max_attempts: Option<u32>,
    /// Lost attempts that the task survives. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub max_losses: Option<u32>,
    /// How long to wait after a failed attempt. If not given, the default of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Whatever to find its tasks by, beside `job_definition`, which names the schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A schedule to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    /// The version that was read: the change is refused if somebody else made one since. 0 for a new
    /// schedule.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub expected_version: u64,
    /// What it is to say.
    pub spec: ScheduleSpec,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// Where.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Grows when people change it; fires leave it alone.
    pub version: u64,
    /// What it says.
    pub spec: ScheduleSpec,
    /// When it fires next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_fire_at: Option<Timestamp>,
    /// The instant of the last fire that made a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_fire_at: Option<Timestamp>,
    /// The last tasks it made, the newest last.
    pub last_tasks: Vec<String>,
    /// What was last decided that was not simply "run it".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_notice: Option<ScheduleNotice>,
    /// When it was added.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last written, by people or by a fire.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// Something that did not go as the schedule says, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScheduleNotice {
    /// When it was decided.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The schedule.
    pub schedule: String,
    /// What became of the fires: `merged`, `skipped`, `replaced`, `refused`, `unreadable`.
    pub what: String,
    /// How many fires or events got no task of their own.
    pub count: u64,
    /// Whether that is their number, or only a lower bound.
    pub is_exact: bool,
    /// Why, for people.
    pub why: String,
}

/// Which notices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct NoticesQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Those after this `seq`; from the first that is kept, if not given.
    pub after: Option<u64>,
    /// How many at most; 50 if not given.
    pub limit: Option<u32>,
}

/// Some notices, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notices {
    /// The notices.
    pub items: Vec<NoticeEntry>,
}

/// A notice in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoticeEntry {
    /// Its place.
    pub seq: u64,
    /// The notice.
    pub notice: ScheduleNotice,
}

/// Which schedules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SchedulesQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Those whose name begins so.
    pub prefix: Option<String>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// How many items at most; 50 if not given.
    pub limit: Option<u32>,
}

/// A change that may insist on a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExpectQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// The version that was read; any, if not given.
    pub expected_version: Option<u64>,
}

/// Which fires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct FiresQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// After this instant; now, if not given.
    #[cfg_attr(feature = "openapi", param(value_type = Option<String>, format = DateTime))]
    pub from: Option<Timestamp>,
    /// How many; 10 if not given.
    pub count: Option<u32>,
}

/// A schedule's next fires, asked for before it is stored.
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
    /// What happens to a time that a clock set forward leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What happens to a time that a clock set back shows twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// After this instant; now, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub from: Option<Timestamp>,
    /// How many; 10 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub count: Option<u32>,
}

/// Fires to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fires {
    /// The next ones. None for a schedule that waits for events, or never fires again.
    pub fires: Vec<Fire>,
}

/// A fire to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fire {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// The same, as a clock in the schedule's zone shows it; in UTC for one without a zone.
    pub local: String,
    /// What a change of the clocks has to do with it.
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}
