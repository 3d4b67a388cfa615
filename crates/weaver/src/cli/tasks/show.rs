//! `weaver tasks show`.

use weaver_api::{Json, Task};

use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Table, instant, state, visible, word};

pub(crate) async fn run(remote: &Remote<'_>, id: &str) -> Result<Exit, Failure> {
    let task = remote.client.task(&remote.namespace, id).await?;
    let output = &remote.context.output;
    output.answer(&task, || text_of(&task, output))?;
    Ok(Exit::Done)
}

fn text_of(task: &Task, output: &Output) -> String {
    let mut text = String::new();
    for (name, value) in details(task) {
        text.push_str(&format!("{name:<15}  {}\n", visible(&value)));
    }
    if !task.attempts.is_empty() {
        let mut table = Table::new(["ATTEMPT", "OUTCOME", "ENDED", "WORKER", "ERROR"]);
        for attempt in &task.attempts {
            let error = attempt.error.clone().unwrap_or_default();
            let ended = instant(attempt.ended_at);
            table.row([
                attempt.attempt.to_string(),
                word(&attempt.outcome),
                ended,
                attempt.worker.clone(),
                error,
            ]);
        }
        text.push('\n');
        text.push_str(&output.render(&table));
    }
    text
}

/// Only the fields that are set.
fn details(task: &Task) -> Vec<(&'static str, String)> {
    let json = |value: &Option<Json>| value.as_ref().map(|value| value.as_str().to_owned());
    let state = match &task.cause {
        Some(cause) => format!("{} ({})", state(task.state), word(cause)),
        None => state(task.state).to_owned(),
    };
    let labels: Vec<String> = task.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let progress = task.progress.as_ref().map(|progress| {
        format!("{:.0} % {}", progress.fraction * 100.0, progress.message).trim_end().to_owned()
    });
    let lease = task
        .lease
        .as_ref()
        .map(|lease| format!("{}, lease expires at {}", lease.worker, instant(lease.expires_at)));
    let attempts = format!(
        "{}; {} failed of at most {}, {} lost",
        task.executions, task.failures, task.max_attempts, task.losses
    );
    let all = [
        ("task", Some(format!("{} in {}", task.id, task.namespace))),
        ("type", Some(task.task_type.clone())),
        ("queue", Some(format!("{}, priority {}", task.queue, task.priority))),
        ("state", Some(state)),
        ("attempts", Some(attempts)),
        ("created", Some(instant(task.created_at))),
        ("due", (!task.state.is_terminal()).then(|| instant(task.ready_at))),
        ("started", task.first_started_at.map(instant)),
        ("finished", task.finished_at.map(instant)),
        ("worker", lease),
        ("progress", progress),
        ("serial key", task.serial_key.clone()),
        ("idempotency key", task.idempotency_key.clone()),
        ("group", task.task_group_id.clone()),
        ("labels", (!labels.is_empty()).then(|| labels.join(", "))),
        ("retry of", task.retry_of.clone()),
        ("payload", json(&task.payload).or_else(|| task.payload_hex.clone())),
        ("result", json(&task.result).or_else(|| task.result_hex.clone())),
        ("error", task.last_error.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
