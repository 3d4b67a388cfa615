//! Schedules as they travel, and as the scheduler knows them.

use serde_json::Value;
use weaver_client::wire;
use weaver_core::time::Timestamp;
use weaver_scheduler::calendar::{Gap, Overlap, Schedule, ScheduleSpec, Zone};
use weaver_scheduler::definition::{
    ConcurrencyPolicy, Definition, DefinitionSpec, Dispatch, Notice, TaskTemplate, Trigger,
};
use weaver_scheduler::misfire::Misfire;

use crate::problem::Problem;

pub(super) fn spec(wire: wire::ScheduleSpec) -> Result<DefinitionSpec, Problem> {
    Ok(DefinitionSpec {
        enabled: wire.enabled,
        trigger: trigger(wire.trigger),
        task: template(wire.task)?,
        concurrency_policy: match wire.concurrency_policy {
            wire::ConcurrencyPolicy::Forbid => ConcurrencyPolicy::Forbid,
            wire::ConcurrencyPolicy::Allow => ConcurrencyPolicy::Allow,
            wire::ConcurrencyPolicy::Replace => ConcurrencyPolicy::Replace,
        },
        misfire: match wire.misfire {
            wire::Misfire::RunOnce {} => Misfire::RunOnce,
            wire::Misfire::RunAll { max } => Misfire::RunAll { max },
            wire::Misfire::SkipAfter { seconds } => Misfire::SkipAfter { seconds },
        },
        dispatch: match wire.dispatch {
            wire::Dispatch::Pull => Dispatch::Pull,
            wire::Dispatch::Assign => Dispatch::Assign,
        },
    })
}

pub(super) fn trigger(wire: wire::Trigger) -> Trigger {
    match wire {
        wire::Trigger::Time { schedule, tz, gap, overlap } => Trigger::Time(ScheduleSpec {
            schedule,
            tz,
            gap: gap.map(|gap| match gap {
                wire::Gap::Shift => Gap::Shift,
                wire::Gap::Skip => Gap::Skip,
            }),
            overlap: overlap.map(|overlap| match overlap {
                wire::Overlap::First => Overlap::First,
                wire::Overlap::Last => Overlap::Last,
                wire::Overlap::Both => Overlap::Both,
            }),
        }),
        wire::Trigger::Event { event_type } => Trigger::Event { event_type },
    }
}

fn template(wire: wire::TaskTemplate) -> Result<TaskTemplate, Problem> {
    let payload = match wire.payload {
        None => Value::Null,
        Some(json) => value(&json, "spec.task.payload")?,
    };
    // Only what was chosen is kept: each run has the defaults that its type has then.
    Ok(TaskTemplate {
        payload,
        event_field: wire.event_field,
        queue: wire.queue,
        priority: wire.priority,
        timeout_ms: wire.timeout_ms,
        max_attempts: wire.max_attempts,
        max_losses: wire.max_losses,
        backoff: wire.retry.map(Into::into),
        labels: wire.labels,
        task_type: wire.task_type,
    })
}

/// JSON as a value. What is too deep, or a number too large, is a text that cannot be one.
pub(in crate::api) fn value(json: &wire::Json, field: &'static str) -> Result<Value, Problem> {
    json.decode().map_err(|error| {
        Problem::bad_request("invalid_body", format!("{field}: {error}"), "send JSON that can be kept")
            .field(field)
    })
}

/// A value as JSON. A value can always be written.
pub(in crate::api) fn json(value: &Value) -> wire::Json {
    wire::Json::of(value).unwrap_or_else(|_| unreachable!("a value is JSON"))
}

pub(super) fn shown(definition: &Definition) -> wire::Schedule {
    wire::Schedule {
        namespace: definition.namespace.to_string(),
        name: definition.name.clone(),
        version: definition.version.0,
        spec: shown_spec(&definition.spec),
        next_fire_at: definition.next_fire_at,
        last_fire_at: definition.last_fire_at,
        last_tasks: definition.last_runs.iter().map(ToString::to_string).collect(),
        last_notice: definition.last_notice.as_ref().map(notice),
        created_at: definition.created_at,
        updated_at: definition.updated_at,
    }
}

fn shown_spec(spec: &DefinitionSpec) -> wire::ScheduleSpec {
    let task = &spec.task;
    wire::ScheduleSpec {
        enabled: spec.enabled,
        trigger: shown_trigger(&spec.trigger),
        task: wire::TaskTemplate {
            task_type: task.task_type.clone(),
            payload: (!task.payload.is_null()).then(|| json(&task.payload)),
            event_field: task.event_field.clone(),
            queue: task.queue.clone(),
            priority: task.priority,
            timeout_ms: task.timeout_ms,
            max_attempts: task.max_attempts,
            max_losses: task.max_losses,
            retry: task.backoff.map(Into::into),
            labels: task.labels.clone(),
        },
        concurrency_policy: match spec.concurrency_policy {
            ConcurrencyPolicy::Forbid => wire::ConcurrencyPolicy::Forbid,
            ConcurrencyPolicy::Allow => wire::ConcurrencyPolicy::Allow,
            ConcurrencyPolicy::Replace => wire::ConcurrencyPolicy::Replace,
        },
        misfire: match spec.misfire {
            Misfire::RunOnce => wire::Misfire::RunOnce {},
            Misfire::RunAll { max } => wire::Misfire::RunAll { max },
            Misfire::SkipAfter { seconds } => wire::Misfire::SkipAfter { seconds },
        },
        dispatch: match spec.dispatch {
            Dispatch::Pull => wire::Dispatch::Pull,
            Dispatch::Assign => wire::Dispatch::Assign,
        },
    }
}

fn shown_trigger(trigger: &Trigger) -> wire::Trigger {
    match trigger {
        Trigger::Time(spec) => wire::Trigger::Time {
            schedule: spec.schedule.clone(),
            tz: spec.tz.clone(),
            gap: spec.gap.map(|gap| match gap {
                Gap::Shift => wire::Gap::Shift,
                Gap::Skip => wire::Gap::Skip,
            }),
            overlap: spec.overlap.map(|overlap| match overlap {
                Overlap::First => wire::Overlap::First,
                Overlap::Last => wire::Overlap::Last,
                Overlap::Both => wire::Overlap::Both,
            }),
        },
        Trigger::Event { event_type } => wire::Trigger::Event { event_type: event_type.clone() },
    }
}

pub(super) fn notice(notice: &Notice) -> wire::ScheduleNotice {
    let what = serde_json::to_value(notice.what).unwrap_or_default();
    wire::ScheduleNotice {
        at: notice.at,
        schedule: notice.definition.clone(),
        what: what.as_str().unwrap_or_default().to_owned(),
        count: notice.count,
        is_exact: notice.is_exact,
        why: notice.why.clone(),
    }
}

pub(super) fn fires(schedule: &Schedule, from: Timestamp, count: usize) -> Vec<wire::Fire> {
    let shown = |fire: weaver_scheduler::calendar::Fire| wire::Fire {
        at: fire.at,
        local: schedule.zone().map_or_else(|| fire.at.to_string(), |zone: &Zone| zone.show(fire.at)),
        notes: fire.notes.iter().map(ToString::to_string).collect(),
    };
    schedule.next(from, count).into_iter().map(shown).collect()
}
