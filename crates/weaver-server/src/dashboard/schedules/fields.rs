//! Conversion between a schedule and the fields of its form.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use weaver_api::{Json, Misfire, Schedule, ScheduleSpec, TaskTemplate, Trigger, from_word, word_of};

use super::super::form::Fields;
use super::super::text::{is_hidden, pretty_json};
use crate::problem::Problem;

/// Every field of a schedule but its name, with its label.
pub(super) const LABELS: [(&str, &str); 18] = [
    ("kind", "Trigger"),
    ("schedule", "Schedule expression"),
    ("tz", "Time zone"),
    ("event_type", "Event type"),
    ("task_type", "Task type"),
    ("payload", "Payload (JSON)"),
    ("queue", "Queue"),
    ("enabled", "Enabled"),
    ("gap", "DST gap (skipped local time)"),
    ("fold", "DST fold (repeated local time)"),
    ("concurrency", "Concurrency policy"),
    ("misfire", "Missed runs"),
    ("misfire_number", "Missed runs limit (count or seconds)"),
    ("event_field", "Payload field for the event"),
    ("priority", "Priority"),
    ("timeout", "Timeout (seconds)"),
    ("max_attempts", "Max attempts"),
    ("labels", "Labels"),
];

pub(super) fn label(field: &str) -> &'static str {
    LABELS.iter().find(|(name, _)| *name == field).map_or("Name", |(_, label)| label)
}

/// The form field for the `field` of a problem document.
pub(super) fn field_of(field: &str) -> &'static str {
    let end = field.rsplit('.').next().unwrap_or_default();
    match (field, end) {
        ("misfire.max" | "misfire.seconds", _) => "misfire_number",
        (_, "task_type" | "type") => "task_type",
        (_, "timeout" | "timeout_ms") => "timeout",
        (_, "concurrency_policy") => "concurrency",
        _ => LABELS.iter().find(|(name, _)| *name == end).map_or("name", |(name, _)| name),
    }
}

/// The form fields of a stored schedule.
pub(super) fn of_schedule(schedule: &Schedule) -> Fields {
    let (spec, task) = (&schedule.spec, &schedule.spec.task);
    let mut fields = vec![("name", schedule.name.clone()), ("version", schedule.version.to_string())];
    match &spec.trigger {
        Trigger::Time { schedule, tz, gap, fold } => {
            fields.extend([("kind", "time".to_owned()), ("schedule", schedule.clone())]);
            fields.push(("tz", tz.clone().unwrap_or_default()));
            fields.push(("gap", gap.as_ref().map_or_else(String::new, word_of)));
            fields.push(("fold", fold.as_ref().map_or_else(String::new, word_of)));
        }
        Trigger::Event { event_type } => {
            fields.extend([("kind", "event".to_owned()), ("event_type", event_type.clone())]);
        }
    }
    let (misfire, number) = match spec.misfire {
        Misfire::RunOnce => ("run_once", String::new()),
        Misfire::RunAll { max } => ("run_all", max.to_string()),
        Misfire::SkipAfter { seconds } => ("skip_after", seconds.to_string()),
    };
    let labels: Vec<String> = task.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let number_of = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    fields.extend([
        ("task_type", task.task_type.clone()),
        ("payload", task.payload.as_ref().map_or_else(String::new, |json| visible(json.as_str()))),
        ("queue", task.queue.clone().unwrap_or_default()),
        ("enabled", if spec.enabled { "yes" } else { "" }.to_owned()),
        ("concurrency", word_of(&spec.concurrency_policy)),
        ("misfire", misfire.to_owned()),
        ("misfire_number", number),
        ("event_field", task.event_field.clone().unwrap_or_default()),
        ("priority", number_of(task.priority.map(u64::from))),
        ("timeout", task.timeout_ms.map_or_else(String::new, seconds)),
        ("max_attempts", number_of(task.max_attempts.map(u64::from))),
        ("labels", labels.join("\n")),
    ]);
    Fields::of(fields)
}

/// Indented JSON with invisible characters escaped, which does not change its value.
fn visible(json: &str) -> String {
    let mut out = String::new();
    for c in pretty_json(json).chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The spec in a form. Settings that the form does not show are taken from `before`.
pub(super) fn spec(fields: &Fields, before: Option<ScheduleSpec>) -> Result<ScheduleSpec, Problem> {
    let text =
        |name: &str| fields.text(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let before_task = before.as_ref().map(|spec| spec.task.clone()).unwrap_or_default();
    let task = TaskTemplate {
        task_type: text("task_type").unwrap_or_default(),
        payload: text("payload").map(Json::from_text).transpose().map_err(|error| {
            invalid("payload", format!("not valid JSON: {error}"), "correct it; strings need double quotes")
        })?,
        event_field: text("event_field").filter(|_| fields.get("kind") == Some("event")),
        queue: text("queue"),
        priority: number(fields, "priority")?,
        timeout_ms: timeout(fields)?,
        max_attempts: number(fields, "max_attempts")?,
        labels: labels(fields)?,
        ..before_task
    };
    Ok(ScheduleSpec {
        enabled: fields.get("enabled").is_some(),
        trigger: trigger(fields),
        task,
        concurrency_policy: selected(fields, "concurrency").unwrap_or_default(),
        misfire: misfire(fields)?,
        dispatch: before.and_then(|spec| spec.dispatch),
    })
}

pub(super) fn trigger(fields: &Fields) -> Trigger {
    if fields.get("kind") == Some("event") {
        return Trigger::Event { event_type: fields.get("event_type").unwrap_or_default().trim().to_owned() };
    }
    Trigger::Time {
        schedule: fields.get("schedule").unwrap_or_default().trim().to_owned(),
        tz: fields.get("tz").map(|tz| tz.trim().to_owned()).filter(|tz| !tz.is_empty()),
        gap: selected(fields, "gap"),
        fold: selected(fields, "fold"),
    }
}

fn misfire(fields: &Fields) -> Result<Misfire, Problem> {
    let missing = || invalid("misfire_number", "this policy needs a number", "enter one");
    Ok(match fields.get("misfire") {
        Some("run_all") => Misfire::RunAll { max: number(fields, "misfire_number")?.ok_or_else(missing)? },
        Some("skip_after") => {
            Misfire::SkipAfter { seconds: number(fields, "misfire_number")?.ok_or_else(missing)? }
        }
        _ => Misfire::RunOnce,
    })
}

fn number<T: std::str::FromStr>(fields: &Fields, name: &'static str) -> Result<Option<T>, Problem> {
    let read = fields.get(name).map(|text| text.trim().parse()).transpose();
    read.map_err(|_| invalid(name, "not a whole number in range", "enter one, or leave it empty"))
}

fn timeout(fields: &Fields) -> Result<Option<u64>, Problem> {
    let Some(text) = fields.get("timeout") else { return Ok(None) };
    let seconds: f64 =
        text.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0).ok_or_else(
            || invalid("timeout", "not a number of seconds", "enter one, like 90 or 0.5, or leave it empty"),
        )?;
    Ok(Some((seconds * 1000.0).round() as u64))
}

fn labels(fields: &Fields) -> Result<BTreeMap<String, String>, Problem> {
    let lines =
        fields.get("labels").unwrap_or_default().lines().map(str::trim).filter(|line| !line.is_empty());
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines
        .map(|line| {
            pair(line).ok_or_else(|| {
                invalid(
                    "labels",
                    format!("`{line}` has no equals sign"),
                    "write one label per line, as name=value",
                )
            })
        })
        .collect()
}

fn invalid(field: &'static str, detail: impl Into<String>, hint: &'static str) -> Problem {
    Problem::bad_request("invalid_field", detail, hint).field(field)
}

/// The selected value; `None` if the field is empty or unknown.
fn selected<T: DeserializeOwned>(fields: &Fields, name: &str) -> Option<T> {
    fields.get(name).and_then(|word| from_word(word).ok())
}

#[cfg(test)]
mod tests {
    use weaver_api::{ConcurrencyPolicy, Fold, Gap, RetryPolicy};
    use weaver_core::time::Timestamp;

    use super::*;

    fn schedule(spec: ScheduleSpec) -> Schedule {
        Schedule {
            namespace: "default".to_owned(),
            name: "n".to_owned(),
            version: 3,
            spec,
            next_run_at: None,
            last_run_at: None,
            last_tasks: Vec::new(),
            last_notice: None,
            created_at: Timestamp::MIN,
            updated_at: Timestamp::MIN,
        }
    }

    #[test]
    fn a_schedule_survives_its_form_including_settings_not_shown() {
        let task = TaskTemplate {
            task_type: "a & b".to_owned(),
            payload: Some(
                Json::from_text("{\"n\": 12345678901234567890.10, \"t\": \"a\u{202e}b\"}").expect("JSON"),
            ),
            event_field: None,
            queue: Some("q".to_owned()),
            priority: Some(0),
            timeout_ms: Some(90_500),
            max_attempts: Some(7),
            max_losses: Some(2),
            retry: Some(RetryPolicy::Fixed { delay_ms: 5 }),
            labels: [("a".to_owned(), "b=c".to_owned()), ("empty".to_owned(), String::new())].into(),
        };
        let timed = Trigger::Time {
            schedule: "30 2 * * *".to_owned(),
            tz: Some("Europe/Berlin".to_owned()),
            gap: Some(Gap::Skip),
            fold: Some(Fold::Both),
        };
        let event = Trigger::Event { event_type: "order.paid".to_owned() };
        for (trigger, misfire) in [
            (timed.clone(), Misfire::RunAll { max: 9 }),
            (timed, Misfire::RunOnce),
            (event, Misfire::SkipAfter { seconds: 60 }),
        ] {
            let written = ScheduleSpec {
                enabled: false,
                trigger,
                task: task.clone(),
                concurrency_policy: ConcurrencyPolicy::Replace,
                misfire,
                dispatch: Some(weaver_api::Dispatch::Pull),
            };
            let shown = of_schedule(&schedule(written.clone()));
            assert!(!shown.get("payload").expect("a payload").contains('\u{202e}'));
            let mut read = spec(&shown, Some(written.clone())).expect("what was shown can be read");
            let payload = |spec: &ScheduleSpec| {
                spec.task.payload.as_ref().expect("a payload").decode::<serde_json::Value>().expect("a value")
            };
            assert_eq!(payload(&read), payload(&written));
            read.task.payload.clone_from(&written.task.payload);
            assert_eq!(read, written);
        }
    }

    #[test]
    fn a_problem_names_the_field_that_is_invalid() {
        for (name, text) in [
            ("payload", "{no"),
            ("priority", "high"),
            ("timeout", "-1"),
            ("timeout", "NaN"),
            ("max_attempts", "1.5"),
            ("labels", "just a word"),
        ] {
            let fields = Fields::of([("task_type", "t".to_owned()), (name, text.to_owned())]);
            let problem = spec(&fields, None).expect_err("it is refused").to_wire();
            assert_eq!(problem.field.as_deref(), Some(name), "{text}");
        }
        for (reported, field) in [
            ("tz", "tz"),
            ("trigger.event_type", "event_type"),
            ("task.timeout", "timeout"),
            ("spec.task.payload", "payload"),
            ("misfire.max", "misfire_number"),
            ("name", "name"),
        ] {
            assert_eq!(field_of(reported), field);
        }
    }
}
