//! Queues and entries, for people.

use serde_json::json;
use weaver_merge::domain::{Check, Departure, EntryId, Judgement, MergeQueue, On, QueueId, RunEnd};
use weaver_merge::engine::{EntryDetail, MergeEngine};

use crate::cli::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, word};

/// How many of those who left are shown.
const DEPARTED_SHOWN: u64 = 20;

pub(super) async fn status(engine: &MergeEngine, id: &QueueId, context: &Context) -> Result<(), Failure> {
    let queue = engine.get(id).await?.queue;
    let departed = engine.departed(id, DEPARTED_SHOWN).await?;
    let answer = json!({
        "queue": queue.id, "base_branch": queue.base_branch, "paused": queue.paused, "entries": queue.entries,
        "departed": departed, "tally": queue.tally,
    });
    context.output.answer(&answer, || text(&queue, &departed, context))
}

fn text(queue: &MergeQueue, departed: &[EntryDetail], context: &Context) -> String {
    let mut text = format!("Queue {} lands on `{}`\n", queue.id, queue.base_branch);
    if let Some(pause) = &queue.paused {
        text += &format!("Paused since {}: {}\n", instant(pause.since), pause.reason);
    }
    let mut table = Table::new(["POSITION", "ENTRY", "CHANGE", "STATUS", "SINCE"]);
    for entry in &queue.entries {
        let position = (entry.position + 1).to_string();
        let change = entry.pull_request.id.clone();
        let since = instant(entry.enqueued_at);
        table.row([position, entry.id.to_string(), change, word(&entry.status), since]);
    }
    for detail in departed {
        let entry = &detail.entry;
        let how = detail.departure.as_ref().map(departure).unwrap_or_default();
        let left = entry.completed_at.map(instant).unwrap_or_default();
        table.row(["-".to_owned(), entry.id.to_string(), entry.pull_request.id.clone(), how, left]);
    }
    text + &context.output.render(&table)
}

fn departure(departure: &Departure) -> String {
    match departure {
        Departure::Landed => "landed".to_owned(),
        Departure::Removed(reason) => reason.word().to_owned(),
    }
}

pub(super) async fn entry(
    engine: &MergeEngine,
    queue: &QueueId,
    id: EntryId,
    context: &Context,
) -> Result<(), Failure> {
    let detail = engine.entry(queue, id).await?;
    context.output.answer(&detail, || {
        let EntryDetail { entry, departure: left, certificate } = &detail;
        let how = left.as_ref().map_or_else(|| word(&entry.status), departure);
        let mut text = format!("Entry {id} of {queue}: `{}`, {how}\n", entry.pull_request.id);
        if let Some(candidate) = &entry.candidate {
            text += &format!("  base    {}\n  head    {}\n", candidate.base, candidate.head);
        }
        if let Some(certificate) = certificate {
            text += &format!("  tree    {}\n  commit  {}\n", certificate.tree, certificate.commit);
        }
        if let Some(trouble) = &entry.trouble {
            let again = instant(trouble.retry_at);
            text += &format!("  trouble {} (tried again at {again})\n", trouble.message);
        }
        text + &entry.checks.iter().map(check).collect::<String>()
    })
}

fn check(check: &Check) -> String {
    let judged = match check.judge() {
        Judgement::Passed if check.is_reused => "passed by the same tree before",
        Judgement::Passed => "passed",
        Judgement::Flaky => "passed when repeated",
        Judgement::Culprit => "failed",
        Judgement::BrokenBase => "fails on the base too",
        Judgement::GaveUp => "could not be run",
        Judgement::Open { .. } => "open",
    };
    let mut text = format!("  check `{}`: {judged}\n", check.name);
    for run in &check.runs {
        let on = if run.on == On::Base { "on the base" } else { "on the candidate" };
        let end = match &run.end {
            None => "under way".to_owned(),
            Some(RunEnd::Passed { .. }) => "passed".to_owned(),
            Some(RunEnd::Failed { summary, .. }) => summary.replace('\n', "\n      "),
            Some(RunEnd::TimedOut) => "timed out".to_owned(),
            Some(RunEnd::Lost { reason }) => reason.clone(),
        };
        let task = run.task.map_or_else(String::new, |task| format!(" (task {task})"));
        text += &format!("    {on}{task}: {end}\n");
    }
    text
}

pub(super) async fn verify(
    engine: &MergeEngine,
    queue: &QueueId,
    id: EntryId,
    context: &Context,
) -> Result<Exit, Failure> {
    let Some(verified) = engine.verify(queue, id).await? else {
        let message = format!("entry {id} has not landed");
        return Err(Failure::new(Exit::NotFound, message).next("`weaver merge status` shows which have"));
    };
    let answer = json!({"certificate": verified.certificate, "differences": verified.differences});
    context.output.answer(&answer, || {
        let certificate = &verified.certificate;
        if verified.differences.is_empty() {
            return format!("Entry {id}: {} is what was tested.\n", certificate.commit);
        }
        format!(
            "Entry {id}: {} is NOT what was tested:\n  {}\n",
            certificate.commit,
            verified.differences.join("\n  ")
        )
    })?;
    Ok(if verified.differences.is_empty() { Exit::Done } else { Exit::Damaged })
}
