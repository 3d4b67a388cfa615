//! Queues and entries, for people.

use serde_json::json;
use weaver_api::{MergeCheck, MergeEntry, MergeFigures, MergeQueue, MergeRun, MergeStatus};

use super::access::Access;
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, word};

/// How many of the last numbers are looked at for those who left.
const DEPARTED_SHOWN: u32 = 20;

pub(super) async fn status(access: &Access<'_>, id: &str) -> Result<(), Failure> {
    let queue = access.queue(id).await?;
    let entries = access.entries(id, DEPARTED_SHOWN).await?;
    let answer = json!({ "queue": queue, "waiting": entries.waiting, "departed": entries.departed });
    let output = &access.context().output;
    output.answer(&answer, || {
        let mut table = Table::new(["POSITION", "ENTRY", "CHANGE", "STATUS", "SINCE"]);
        for entry in entries.waiting.iter().chain(&entries.departed) {
            let position = entry.position.map_or_else(|| "-".to_owned(), |position| position.to_string());
            let since = instant(entry.completed_at.unwrap_or(entry.enqueued_at));
            table.row([position, entry.entry.to_string(), entry.change.clone(), how(entry), since]);
        }
        head(&queue) + &output.render(&table) + &figures(&queue.figures)
    })
}

fn head(queue: &MergeQueue) -> String {
    let mut text = format!("Queue {} lands on `{}`\n", queue.id, queue.base_branch);
    if let Some(pause) = &queue.paused {
        text += &format!("Paused since {}: {}\n", instant(pause.since), pause.reason);
    }
    text
}

/// What happened so far, in one line; nothing while nothing has.
fn figures(figures: &MergeFigures) -> String {
    let removed: u64 = figures.removed.values().sum();
    if figures.landed + removed == 0 {
        return String::new();
    }
    let seconds = |ms: Option<u64>| {
        ms.map_or_else(|| "-".to_owned(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100))
    };
    let per_landing =
        figures.check_runs_per_landing.map_or_else(|| "-".to_owned(), |runs| format!("{runs:.1}"));
    let flaky = figures.flake_rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    format!(
        "{} landed, {removed} left otherwise; turnaround P50 {}, P95 {}; wait P50 {}; {per_landing} check runs per landing; \
         {flaky} flaky\n",
        figures.landed,
        seconds(figures.turnaround_p50_ms),
        seconds(figures.turnaround_p95_ms),
        seconds(figures.wait_p50_ms),
    )
}

/// What it is doing, or why it left.
fn how(entry: &MergeEntry) -> String {
    match &entry.reason {
        Some(reason) => reason.reason.clone(),
        None => word(&entry.status),
    }
}

pub(super) async fn entry(access: &Access<'_>, queue: &str, number: u64) -> Result<(), Failure> {
    let entry = access.entry(queue, number).await?;
    access.context().output.answer(&entry, || {
        let mut text = format!("Entry {number} of {queue}: `{}`, {}\n", entry.change, how(&entry));
        if let Some(reason) = entry.reason.as_ref().filter(|reason| !reason.details.is_empty()) {
            text += &format!("  because {}\n", reason.details.join(", "));
        }
        if let Some(candidate) = &entry.candidate {
            text += &format!("  base    {}\n  head    {}\n", candidate.base, candidate.head);
            let landed = entry.status == MergeStatus::Landed;
            if let (Some(tree), Some(commit), true) = (&candidate.tree, &candidate.commit, landed) {
                text += &format!("  tree    {tree}\n  commit  {commit}\n");
            }
        }
        if let Some(trouble) = &entry.trouble {
            let again = instant(trouble.retry_at);
            text += &format!("  trouble {} (tried again at {again})\n", trouble.message);
        }
        text + &entry.checks.iter().map(check).collect::<String>()
    })
}

fn check(check: &MergeCheck) -> String {
    let judged = match check.judgement.as_str() {
        "reused" => "passed by the same tree before",
        "flaky" => "passed when repeated",
        "broken_base" => "fails on the base too",
        "gave_up" => "could not be run",
        other => other,
    };
    let runs: String = check.runs.iter().map(run).collect();
    format!("  check `{}`: {judged}\n{runs}", check.name)
}

fn run(run: &MergeRun) -> String {
    let on = if run.on == "base" { "on the base" } else { "on the candidate" };
    let end = match (run.end.as_deref(), &run.summary) {
        (None, _) => "under way".to_owned(),
        (Some(_), Some(summary)) => summary.replace('\n', "\n      "),
        (Some(end), None) => end.replace('_', " "),
    };
    let task = run.task.as_ref().map_or_else(String::new, |task| format!(" (task {task})"));
    format!("    {on}{task}: {end}\n")
}

pub(super) async fn verify(access: &Access<'_>, queue: &str, number: u64) -> Result<Exit, Failure> {
    let verified = access.verify(queue, number).await?;
    access.context().output.answer(&verified, || {
        let commit = &verified.certificate.commit;
        if verified.differences.is_empty() {
            return format!("Entry {number}: {commit} is what was tested.\n");
        }
        let differences = verified.differences.join("\n  ");
        format!("Entry {number}: {commit} is NOT what was tested:\n  {differences}\n")
    })?;
    Ok(if verified.differences.is_empty() { Exit::Done } else { Exit::Damaged })
}
