//! Converts schedules between their wire types and the scheduler's.

use serde_json::Value;
use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{self, Zone};
use weaver_scheduler::definition::{self, Definition, DefinitionSpec, Notice};

use super::{
    Json, Schedule, ScheduleNotice, ScheduleSpec, TaskTemplate, Trigger, UpcomingRun, UpcomingRuns, word_of,
};

/// Fails if the payload is nested too deeply or has a number that is too large to store.
impl TryFrom<ScheduleSpec> for DefinitionSpec {
    type Error = serde_json::Error;

    fn try_from(spec: ScheduleSpec) -> Result<Self, serde_json::Error> {
        let ScheduleSpec { enabled, trigger, task, concurrency_policy, misfire, dispatch } = spec;
        let (trigger, task) = (trigger.into(), task.try_into()?);
        Ok(Self { enabled, trigger, task, concurrency_policy, misfire, dispatch })
    }
}

impl From<&DefinitionSpec> for ScheduleSpec {
    fn from(spec: &DefinitionSpec) -> Self {
        let DefinitionSpec { enabled, trigger, task, concurrency_policy, misfire, dispatch } = spec;
        Self {
            enabled: *enabled,
            trigger: trigger.into(),
            task: task.into(),
            concurrency_policy: *concurrency_policy,
            misfire: *misfire,
            dispatch: *dispatch,
        }
    }
}

impl From<Trigger> for definition::Trigger {
    fn from(trigger: Trigger) -> Self {
        match trigger {
            Trigger::Time { schedule, tz, gap, fold } => {
                Self::Time(calendar::ScheduleSpec { schedule, tz, gap, fold })
            }
            Trigger::Event { event_type } => Self::Event { event_type },
        }
    }
}

impl From<&definition::Trigger> for Trigger {
    fn from(trigger: &definition::Trigger) -> Self {
        match trigger.clone() {
            definition::Trigger::Time(calendar::ScheduleSpec { schedule, tz, gap, fold }) => {
                Self::Time { schedule, tz, gap, fold }
            }
            definition::Trigger::Event { event_type } => Self::Event { event_type },
        }
    }
}

/// Absent fields stay absent: each run takes the defaults of its type at that time.
impl TryFrom<TaskTemplate> for definition::TaskTemplate {
    type Error = serde_json::Error;

    fn try_from(template: TaskTemplate) -> Result<Self, serde_json::Error> {
        let TaskTemplate { task_type, payload, event_field, queue, priority, .. } = template;
        let TaskTemplate { timeout_ms, max_attempts, max_losses, retry, labels, .. } = template;
        let payload = payload.map_or(Ok(Value::Null), |json| json.decode())?;
        let backoff = retry.map(Into::into);
        Ok(Self {
            task_type,
            payload,
            event_field,
            queue,
            priority,
            timeout_ms,
            max_attempts,
            max_losses,
            backoff,
            labels,
        })
    }
}

impl From<&definition::TaskTemplate> for TaskTemplate {
    fn from(template: &definition::TaskTemplate) -> Self {
        let definition::TaskTemplate { task_type, payload, event_field, queue, labels, .. } =
            template.clone();
        Self {
            task_type,
            payload: (!payload.is_null()).then(|| Json::from(&payload)),
            event_field,
            queue,
            priority: template.priority,
            timeout_ms: template.timeout_ms,
            max_attempts: template.max_attempts,
            max_losses: template.max_losses,
            retry: template.backoff.map(Into::into),
            labels,
        }
    }
}

impl From<&Definition> for Schedule {
    fn from(definition: &Definition) -> Self {
        Self {
            namespace: definition.namespace.to_string(),
            name: definition.name.clone(),
            version: definition.version.0,
            spec: ScheduleSpec::from(&definition.spec),
            next_run_at: definition.next_fire_at,
            last_run_at: definition.last_fire_at,
            last_tasks: definition.last_runs.iter().map(ToString::to_string).collect(),
            last_notice: definition.last_notice.as_ref().map(ScheduleNotice::from),
            created_at: definition.created_at,
            updated_at: definition.updated_at,
        }
    }
}

impl From<&Notice> for ScheduleNotice {
    fn from(notice: &Notice) -> Self {
        Self {
            at: notice.at,
            schedule: notice.definition.clone(),
            kind: word_of(&notice.kind),
            count: notice.count,
            is_exact: notice.is_exact,
            reason: notice.reason.clone(),
        }
    }
}

impl UpcomingRuns {
    /// The next `count` runs of a schedule after `from`.
    pub fn next(schedule: &calendar::Schedule, from: Timestamp, count: usize) -> Self {
        let shown = |fire: calendar::Fire| UpcomingRun {
            at: fire.at,
            local: schedule.zone().map_or_else(|| fire.at.to_string(), |zone: &Zone| zone.show(fire.at)),
            notes: fire.notes.iter().map(ToString::to_string).collect(),
        };
        Self { runs: schedule.next(from, count).into_iter().map(shown).collect() }
    }
}
