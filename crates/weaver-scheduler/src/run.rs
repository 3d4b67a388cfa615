//! The task of a run, made from the schedule's template.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weaver_core::task::NewTask;
use weaver_core::time::Timestamp;

use crate::definition::{DEFINITION_LABEL, TaskTemplate};
use crate::error::{InvalidField, Result};

/// The event of a run, as its handler gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunEvent {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) payload: Value,
}

/// The task of one run. The caller sets its namespace.
pub(crate) fn task_of(
    name: &str,
    template: &TaskTemplate,
    scheduled_for: Option<Timestamp>,
    event: Option<&RunEvent>,
    key: &str,
) -> Result<NewTask> {
    let payload = payload(template, event);
    let mut task = NewTask::new(template.task_type.clone())
        .json(&payload)
        .map_err(|error| InvalidField::error("task.payload", error.to_string(), "give JSON"))?
        .idempotency_key(key.to_owned())
        .job_definition_id(name.to_owned());
    if let Some(queue) = &template.queue {
        task = task.queue(queue.clone());
    }
    if let Some(priority) = template.priority {
        task = task.priority(priority);
    }
    if let Some(timeout_ms) = template.timeout_ms {
        task = task.timeout(Duration::from_millis(timeout_ms));
    }
    if let Some(count) = template.max_attempts {
        task = task.max_attempts(count);
    }
    if let Some(count) = template.max_losses {
        task = task.max_losses(count);
    }
    if let Some(policy) = template.backoff {
        task = task.retry(policy);
    }
    for (label, value) in &template.labels {
        task = task.label(label.clone(), value.clone());
    }
    // Last, so that a template cannot override it.
    task = task.label(DEFINITION_LABEL, name);
    if let Some(instant) = scheduled_for {
        // `run_at` as well: the clock of this node may be ahead of the store's.
        task = task.scheduled_for(instant).run_at(instant);
    }
    Ok(task)
}

fn payload(template: &TaskTemplate, event: Option<&RunEvent>) -> Value {
    let Some(event) = event else { return template.payload.clone() };
    let event = json!(event);
    match (&template.payload, &template.event_field) {
        (Value::Null, _) => event,
        (Value::Object(fields), Some(field)) => {
            let mut fields = fields.clone();
            fields.insert(field.clone(), event);
            Value::Object(fields)
        }
        (payload, _) => payload.clone(),
    }
}

/// The idempotency key of a scheduled run (seed 004, 2.1).
pub(crate) fn time_key(name: &str, scheduled_for: Timestamp) -> String {
    format!("time:{name}:{scheduled_for}")
}

/// The idempotency key of an event's run.
pub(crate) fn event_key(name: &str, event: &str) -> String {
    format!("event:{name}:{event}")
}
