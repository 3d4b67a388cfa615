//! Validation of a schedule when it is written: a fire has no client to report an error to.

use serde_json::Value;
use weaver_core::limits::Limits;
use weaver_core::name::name_problem;

use super::{
    DEFINITION_NAME_MAX_BYTES, DefinitionSpec, EVENT_TYPE_MAX_BYTES, TEMPLATE_PAYLOAD_MAX_BYTES, Trigger,
};
use crate::calendar::Schedule;
use crate::error::{InvalidField, Result};
use crate::misfire::{Misfire, RUNS_MAX};
use crate::run::task_of;

/// Refuses a schedule that could not fire. Returns its time trigger, parsed.
pub(crate) fn check(name: &str, spec: &DefinitionSpec, limits: &Limits) -> Result<Option<Schedule>> {
    check_text("name", name, DEFINITION_NAME_MAX_BYTES)?;
    let schedule = match &spec.trigger {
        Trigger::Time(schedule) => Some(Schedule::new(schedule.clone())?),
        Trigger::Event { event_type } => {
            check_text("trigger.event_type", event_type, EVENT_TYPE_MAX_BYTES)?;
            None
        }
    };
    if let Misfire::RunAll { max } = spec.misfire
        && !(1..=RUNS_MAX).contains(&max)
    {
        let problem = format!("{max} is not between 1 and {RUNS_MAX}");
        return Err(InvalidField::error("misfire.max", problem, "give a number in that range"));
    }
    check_payload(spec)?;
    // The task that a fire will enqueue, validated now by the same rules.
    let task = task_of(name, &spec.task, None, None, "k")?;
    let _checked = task.validate(limits).map_err(|invalid| InvalidField::of("task.", &invalid))?;
    Ok(schedule)
}

fn check_payload(spec: &DefinitionSpec) -> Result<()> {
    let bytes = spec.task.payload.to_string().len();
    if bytes > TEMPLATE_PAYLOAD_MAX_BYTES {
        let problem = format!("it has {bytes} bytes as JSON; the limit is {TEMPLATE_PAYLOAD_MAX_BYTES}");
        return Err(InvalidField::error("task.payload", problem, "store it elsewhere and give a reference"));
    }
    if spec.task.event_field.is_none() {
        return Ok(());
    }
    if matches!(spec.trigger, Trigger::Time(_)) {
        let problem = "a time trigger has no event";
        return Err(InvalidField::error("task.event_field", problem, "omit it"));
    }
    if !matches!(spec.task.payload, Value::Object(_)) {
        let problem = "the payload is not an object";
        let hint = "make `task.payload` an object, or omit both to get the event as the payload";
        return Err(InvalidField::error("task.event_field", problem, hint));
    }
    Ok(())
}

/// Refuses a text that is not a valid name or longer than `max_bytes`.
pub(crate) fn check_text(field: &str, text: &str, max_bytes: usize) -> Result<()> {
    if text.len() > max_bytes {
        let problem = format!("`{text}` is {} bytes long", text.len());
        return Err(InvalidField::error(field, problem, format!("use at most {max_bytes}")));
    }
    match name_problem(text) {
        None => Ok(()),
        Some(problem) => {
            let text = problem.to_string();
            let (problem, hint) = text.split_once(": ").unwrap_or((&text, "change it"));
            Err(InvalidField::error(field, problem, hint))
        }
    }
}
