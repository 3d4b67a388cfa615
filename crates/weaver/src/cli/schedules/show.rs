//! `weaver schedules show`.

use weaver_api::{Fires, FiresQuery, Misfire, Schedule};

use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::{instant, visible, word};

/// How many fires are shown with it.
const FIRES: u32 = 5;

pub(super) async fn run(remote: &Remote<'_>, name: &str) -> Result<Exit, Failure> {
    let schedule = remote.client.schedule(&remote.namespace, name).await?;
    let query = FiresQuery { namespace: Some(remote.namespace.clone()), from: None, count: Some(FIRES) };
    let fires = remote.client.fires(name, &query).await?;
    remote.context.output.answer(&schedule, || {
        let mut text = String::new();
        for (name, value) in facts(&schedule) {
            text.push_str(&format!("{name:<11}  {}\n", visible(&value)));
        }
        text + &fires_text(&schedule, &fires)
    })?;
    Ok(Exit::Done)
}

fn facts(schedule: &Schedule) -> Vec<(&'static str, String)> {
    let spec = &schedule.spec;
    let task = &spec.task;
    let labels: Vec<String> = task.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let misfire = match spec.misfire {
        Misfire::RunOnce => "missed fires make one task".to_owned(),
        Misfire::RunAll { max } => format!("missed fires make a task each, the latest {max} of them"),
        Misfire::SkipAfter { seconds } => format!("fires that are {seconds} s late are left out"),
    };
    let notice = schedule.last_notice.as_ref().map(|notice| {
        let at_least = if notice.is_exact { "" } else { "at least " };
        format!("{} {at_least}{} at {}: {}", notice.what, notice.count, instant(notice.at), notice.why)
    });
    let all = [
        (
            "schedule",
            Some(format!("{} in {}, version {}", schedule.name, schedule.namespace, schedule.version)),
        ),
        ("when", Some(super::when(&spec.trigger))),
        ("enabled", Some(if spec.enabled { "yes" } else { "no" }.to_owned())),
        ("task", Some(task.task_type.clone())),
        ("payload", task.payload.as_ref().map(|payload| payload.as_str().to_owned())),
        ("queue", task.queue.clone()),
        ("priority", task.priority.map(|priority| priority.to_string())),
        ("timeout", task.timeout_ms.map(|ms| format!("{ms} ms"))),
        ("attempts", task.max_attempts.map(|count| format!("at most {count}"))),
        ("labels", (!labels.is_empty()).then(|| labels.join(", "))),
        ("concurrency", Some(word(&spec.concurrency_policy))),
        ("misfire", Some(misfire)),
        ("last fire", schedule.last_fire_at.map(instant)),
        ("last tasks", (!schedule.last_tasks.is_empty()).then(|| schedule.last_tasks.join(", "))),
        ("notice", notice),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn fires_text(schedule: &Schedule, fires: &Fires) -> String {
    if fires.fires.is_empty() {
        return String::new();
    }
    let if_enabled = if schedule.spec.enabled { "" } else { ", if it were enabled" };
    let mut text = format!("\nnext fires{if_enabled}\n");
    for fire in &fires.fires {
        text.push_str(&format!("  {}  {}\n", fire.local, fire.notes.join("; ")).replace("  \n", "\n"));
    }
    text
}
