//! `weaver schedules show`.

use weaver_api::{Misfire, Schedule, UpcomingQuery, UpcomingRuns};

use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::{instant, visible, word};

/// Upcoming runs shown with a schedule.
const UPCOMING: u32 = 5;

pub(super) async fn run(remote: &Remote<'_>, name: &str) -> Result<Exit, Failure> {
    let schedule = remote.client.schedule(&remote.namespace, name).await?;
    let query =
        UpcomingQuery { namespace: Some(remote.namespace.clone()), from: None, count: Some(UPCOMING) };
    let upcoming = remote.client.upcoming_runs(name, &query).await?;
    remote.context.output.answer(&schedule, || {
        let mut text = String::new();
        for (name, value) in details(&schedule) {
            text.push_str(&format!("{name:<11}  {}\n", visible(&value)));
        }
        text + &upcoming_text(&schedule, &upcoming)
    })?;
    Ok(Exit::Done)
}

fn details(schedule: &Schedule) -> Vec<(&'static str, String)> {
    let spec = &schedule.spec;
    let task = &spec.task;
    let labels: Vec<String> = task.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let misfire = match spec.misfire {
        Misfire::RunOnce => "run once".to_owned(),
        Misfire::RunAll { max } => format!("run all, at most the latest {max}"),
        Misfire::SkipAfter { seconds } => format!("skip runs that are more than {seconds} s late"),
    };
    let notice = schedule.last_notice.as_ref().map(|notice| {
        let at_least = if notice.is_exact { "" } else { "at least " };
        format!("{} {at_least}{} at {}: {}", notice.kind, notice.count, instant(notice.at), notice.reason)
    });
    let all = [
        (
            "schedule",
            Some(format!("{} in {}, version {}", schedule.name, schedule.namespace, schedule.version)),
        ),
        ("trigger", Some(super::trigger_text(&spec.trigger))),
        ("enabled", Some(if spec.enabled { "yes" } else { "no" }.to_owned())),
        ("task type", Some(task.task_type.clone())),
        ("payload", task.payload.as_ref().map(|payload| payload.as_str().to_owned())),
        ("queue", task.queue.clone()),
        ("priority", task.priority.map(|priority| priority.to_string())),
        ("timeout", task.timeout_ms.map(|ms| format!("{ms} ms"))),
        ("attempts", task.max_attempts.map(|count| format!("at most {count}"))),
        ("labels", (!labels.is_empty()).then(|| labels.join(", "))),
        ("concurrency", Some(word(&spec.concurrency_policy))),
        ("missed runs", Some(misfire)),
        ("last run", schedule.last_run_at.map(instant)),
        ("last tasks", (!schedule.last_tasks.is_empty()).then(|| schedule.last_tasks.join(", "))),
        ("notice", notice),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn upcoming_text(schedule: &Schedule, upcoming: &UpcomingRuns) -> String {
    if upcoming.runs.is_empty() {
        return String::new();
    }
    let if_enabled = if schedule.spec.enabled { "" } else { ", once enabled" };
    let mut text = format!("\nupcoming runs{if_enabled}\n");
    for run in &upcoming.runs {
        text.push_str(&format!("  {}  {}\n", run.local, run.notes.join("; ")).replace("  \n", "\n"));
    }
    text
}
