//! `weaver store check`.

use std::sync::Arc;

use serde_json::{Value, json};
use weaver::core::quarantine::{CheckReport, RecordKind, Unreadable, UnreadableRecord};

use crate::cli::store::StoreTask;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Progress, Tone, with_progress};
use crate::wiring::IfMissing;

pub(crate) async fn run(task: &StoreTask) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("checking {}", task.url));
    if let Some(report) = records(task, &progress).await? {
        return print_report(task, &report);
    }
    let report = task.on_store(IfMissing::Refuse, &progress, |store| Ok(store.check()?)).await?;
    let answer = json!({
        "store": task.url.to_string(),
        "is_clean": report.is_clean(),
        "rows": report.rows,
        "tasks": report.tasks,
        "problems": report.problems,
    });
    let output = &task.context.output;
    output.answer(&answer, || {
        let read = format!("{}: {} tasks in {} rows", task.url, report.tasks, report.rows);
        if report.is_clean() {
            return format!("{read}: {}.\n", output.paint.tone(Tone::Good, "no problems found"));
        }
        let mut text = format!("{read}: {}\n", output.paint.tone(Tone::Bad, "problems found"));
        for problem in &report.problems {
            text.push_str(&format!("  {problem}\n"));
        }
        text.push_str("Restore the latest backup of this directory, or export the readable records: `weaver store export`.\n");
        text
    })?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::Damaged })
}

/// Reads every record of a store that other processes may have open.
async fn records(task: &StoreTask, progress: &Arc<Progress>) -> Result<Option<CheckReport>, Failure> {
    let label = progress.label();
    let report = |count: u64| {
        progress.say(format!("{label}: {count} records"));
        true
    };
    let checking = Box::pin(task.url.check_records(&task.context.config, &task.context.clock, &report));
    with_progress(&*task.context.clock, progress, checking).await
}

fn print_report(task: &StoreTask, report: &CheckReport) -> Result<Exit, Failure> {
    let answer = json!({
        "store": task.url.to_string(),
        "is_clean": report.is_clean(),
        "rows": report.records(),
        "tasks": report.tasks,
        "queues": report.queues,
        "workers": report.runners,
        "documents": report.documents,
        "unreadable": report.unreadable.iter().map(document).collect::<Vec<_>>(),
        "unlisted": report.unlisted,
        "problems": report.unreadable.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let output = &task.context.output;
    output.answer(&answer, || text(&task.url.to_string(), report, output))?;
    Ok(match (report.is_clean(), report.is_damaged()) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Damaged,
        // As for a store of a newer format: this version must not touch it.
        (false, false) => Exit::Refused,
    })
}

fn document(found: &UnreadableRecord) -> Value {
    json!({
        "kind": found.kind,
        "namespace": found.namespace,
        "id": found.id,
        "reason": found.reason.to_string(),
        "state": found.state,
        "holds": { "serial_key": found.serial_key, "slot": found.holds_slot },
    })
}

fn text(store: &str, report: &CheckReport, output: &Output) -> String {
    let read = format!(
        "{store}: {} tasks, {} queues, {} workers, {} documents",
        report.tasks, report.queues, report.runners, report.documents
    );
    if report.is_clean() {
        return format!("{read}: {}.\n", output.paint.tone(Tone::Good, "no problems found"));
    }
    let count = report.unreadable.len() as u64 + report.unlisted;
    let verdict = format!("{count} unreadable");
    let mut text = format!("{read}: {}\n", output.paint.tone(Tone::Bad, &verdict));
    for found in &report.unreadable {
        text.push_str(&format!("  {found}\n"));
    }
    if report.unlisted > 0 {
        text.push_str(&format!("  and {} more\n", report.unlisted));
    }
    text.push_str(&advice(report));
    text
}

/// What to do about each kind of record.
fn advice(report: &CheckReport) -> String {
    let has = |test: &dyn Fn(&UnreadableRecord) -> bool| report.unreadable.iter().any(test);
    let is_damaged = |found: &UnreadableRecord| matches!(found.reason, Unreadable::Undecodable { .. });
    let mut text = String::new();
    if has(&|found| !is_damaged(found)) {
        text.push_str("A newer format is not damage: upgrade this node to read these records.\n");
    }
    for (kind, next) in [
        (
            RecordKind::Task,
            "Delete a task: `weaver tasks purge ID --yes`, which saves its stored form first.",
        ),
        (RecordKind::QueueSettings, "Rewrite a queue's settings: `weaver queues limit QUEUE none`."),
        (RecordKind::Runner, "A worker's record is rewritten by its next heartbeat."),
        (
            RecordKind::Document,
            "Remove a schedule and add it again: `weaver schedules remove NAME`; or restore the document from a backup.",
        ),
    ] {
        if has(&|found| found.kind == kind && is_damaged(found)) {
            text.push_str(next);
            text.push('\n');
        }
    }
    text
}
