//! Text output of merge queues and entries.

use serde_json::json;
use weaver_api::{MergeCheck, MergeEntry, MergeQueue, MergeRun, MergeStats, MergeStatus};

use super::access::Access;
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, word};

/// Entries of the history shown with a queue.
const HISTORY_SHOWN: u32 = 20;
/// Digits of a commit in a table.
const SHORT: usize = 10;

pub(super) async fn status(access: &Access<'_>, id: &str) -> Result<(), Failure> {
    let queue = access.queue(id).await?;
    let entries = access.entries(id, HISTORY_SHOWN).await?;
    let answer = json!({ "queue": queue, "waiting": entries.waiting, "history": entries.history });
    let output = &access.context().output;
    output.answer(&answer, || {
        let mut table = Table::new(["POSITION", "ENTRY", "CHANGE", "HEAD", "STATUS", "BY", "SINCE"]);
        for entry in entries.waiting.iter().chain(&entries.history) {
            let position = entry.position.map_or_else(|| "-".to_owned(), |position| position.to_string());
            let since = instant(entry.completed_at.unwrap_or(entry.enqueued_at));
            let head = entry.head.get(..SHORT).unwrap_or(&entry.head).to_owned();
            let by = entry.enqueued_by.clone().unwrap_or_else(|| "-".to_owned());
            let (number, change) = (entry.entry.to_string(), entry.change.clone());
            table.row([position, number, change, head, status_text(entry), by, since]);
        }
        head(&queue) + &output.render(&table) + &stats(&queue.stats)
    })
}

fn head(queue: &MergeQueue) -> String {
    let (id, base, namespace) = (&queue.id, &queue.base_branch, &queue.namespace);
    let mut text = format!("Merge queue {id}, base branch `{base}`, namespace `{namespace}`\n");
    if let Some(removal) = &queue.removed {
        let by = removal.by.as_deref().unwrap_or("an operator");
        text += &format!("Removed at {} by {by}\n", instant(removal.at));
    }
    if let Some(pause) = &queue.paused {
        text += &format!("Paused since {}: {}\n", instant(pause.since), pause.reason);
    }
    text
}

/// Statistics in one line; empty before the first entry has left.
fn stats(stats: &MergeStats) -> String {
    let removed: u64 = stats.removed.values().sum();
    if stats.landed + removed == 0 {
        return String::new();
    }
    let seconds = |ms: Option<u64>| {
        ms.map_or_else(|| "-".to_owned(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100))
    };
    let per_landing =
        stats.check_runs_per_landing.map_or_else(|| "-".to_owned(), |runs| format!("{runs:.1}"));
    let flaky = stats.flake_rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    format!(
        "{} landed, {removed} removed; turnaround P50 {}, P95 {}; wait P50 {}; {per_landing} check runs per landing; \
         {flaky} flaky\n",
        stats.landed,
        seconds(stats.turnaround_p50_ms),
        seconds(stats.turnaround_p95_ms),
        seconds(stats.wait_p50_ms),
    )
}

/// The status of a waiting entry, or why it left the queue.
fn status_text(entry: &MergeEntry) -> String {
    match &entry.reason {
        Some(reason) => reason.reason.clone(),
        None => word(&entry.status),
    }
}

pub(super) async fn entry(access: &Access<'_>, queue: &str, number: u64) -> Result<(), Failure> {
    let entry = access.entry(queue, number).await?;
    access.context().output.answer(&entry, || {
        let mut text = format!("Entry {number} of {queue}: `{}`, {}\n", entry.change, status_text(&entry));
        if let Some(reason) = entry.reason.as_ref().filter(|reason| !reason.details.is_empty()) {
            text += &format!("  reason  {}\n", reason.details.join(", "));
        }
        for landed in entry.reason.iter().flat_map(|reason| &reason.collides_with) {
            let (number, change, commit) = (landed.entry, &landed.change, &landed.commit);
            text += &format!("  with    entry {number} (`{change}`), landed as {commit}\n");
        }
        text += &format!("  head    {}\n", entry.head);
        if let Some(by) = &entry.enqueued_by {
            text += &format!("  by      {by}\n");
        }
        if let Some(candidate) = &entry.candidate {
            text += &format!("  base    {}\n", candidate.base);
            let landed = entry.status == MergeStatus::Landed;
            if let (Some(tree), Some(commit), true) = (&candidate.tree, &candidate.commit, landed) {
                text += &format!("  tree    {tree}\n  commit  {commit}\n");
            }
        }
        if let Some(fault) = &entry.fault {
            let again = instant(fault.retry_at);
            text += &format!("  fault   {} (retried at {again})\n", fault.message);
        }
        text + &entry.checks.iter().map(|it| check(&entry.namespace, it)).collect::<String>()
    })
}

fn check(namespace: &str, check: &MergeCheck) -> String {
    let conclusion = match check.conclusion.as_str() {
        "reused" => "passed before on the same tree",
        "flaky" => "flaky: passed when repeated",
        "broken_base" => "failed on the base too",
        "unusable" => "cannot be checked out",
        "gave_up" => "could not be run",
        other => other,
    };
    let runs: String = check.runs.iter().map(|it| run(namespace, it)).collect();
    format!("  check `{}`: {conclusion}\n{runs}", check.name)
}

fn run(namespace: &str, run: &MergeRun) -> String {
    let on = if run.on == "base" { "on the base" } else { "on the candidate" };
    let end = match (run.outcome.as_deref(), &run.summary) {
        (None, _) => "running".to_owned(),
        (Some(_), Some(summary)) => summary.replace('\n', "\n      "),
        (Some(end), None) => end.replace('_', " "),
    };
    let place = match namespace {
        "default" => String::new(),
        other => format!(", namespace {other}"),
    };
    let task = run.task.as_ref().map_or_else(String::new, |task| format!(" (task {task}{place})"));
    format!("    {on}{task}: {end}\n")
}

pub(super) async fn verify(access: &Access<'_>, queue: &str, number: u64) -> Result<Exit, Failure> {
    let verified = access.verify(queue, number).await?;
    access.context().output.answer(&verified, || {
        let commit = &verified.certificate.commit;
        if verified.differences.is_empty() {
            return format!("Entry {number}: {commit} is verified: it is what was tested.\n");
        }
        let differences = verified.differences.join("\n  ");
        format!("Entry {number}: {commit} is NOT verified:\n  {differences}\n")
    })?;
    Ok(if verified.differences.is_empty() { Exit::Done } else { Exit::Damaged })
}
