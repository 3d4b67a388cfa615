//! Converts the engine's merge queues to their wire types.

use weaver_core::name::Namespace;
use weaver_core::time::Timestamp;
use weaver_merge::domain::{
    ChainHead, Check, CheckRun, CheckTarget, Conclusion, EntryOutcome, LandedChange, MergeQueue, QueueEntry,
    QueueId, Reason, Removal, RunOutcome, Status, Tally,
};
use weaver_merge::engine::{
    Certificate, ChainExport, ChainReport, EntryDetail, Event, JournalEvent, LinkReport, MergeEngine, Pinned,
    Verified,
};

use crate as wire;

/// A queue, with the settings that it has from its engine.
pub fn queue(queue: &MergeQueue, engine: &MergeEngine) -> wire::MergeQueue {
    let pause = |pause: &weaver_merge::domain::Pause| wire::MergePause {
        reason: pause.reason.clone(),
        since: pause.since,
        cause: pause.cause.word().to_owned(),
    };
    let removal = |removal: &Removal| wire::MergeRemoval {
        at: removal.requested_at,
        by: removal.by.clone(),
        entries: removal.entries as u64,
        complete: removal.completed_at.is_some(),
    };
    wire::MergeQueue {
        id: queue.id.0.clone(),
        namespace: engine.namespace_of(queue).to_string(),
        repository: queue.repository.name.clone(),
        location: queue.repository.location.clone(),
        base_branch: queue.base_branch.clone(),
        priority: queue.priority,
        waiting: queue.entries.len() as u64,
        paused: queue.paused.as_ref().map(pause),
        created_at: queue.created_at,
        on_foreign: engine.on_foreign(queue),
        chain: queue.chain.as_ref().map(chain),
        removed: queue.removal.as_ref().map(removal),
        stats: stats(&queue.tally),
    }
}

fn chain(head: &ChainHead) -> wire::MergeChain {
    wire::MergeChain {
        sequence: head.link.sequence,
        hash: head.link.hash.clone(),
        commit: head.commit.to_string(),
        start: head.start.to_string(),
    }
}

/// A part of a chain: the links before a number, at most `limit`.
pub fn chain_part(export: &ChainExport, before: Option<u64>, limit: usize) -> wire::MergeChainExport {
    let before = before.unwrap_or(u64::MAX).min(export.head.link.sequence + 1);
    let skipped = usize::try_from(export.head.link.sequence + 1 - before).unwrap_or(usize::MAX);
    let links = export.links.iter().skip(skipped).take(limit);
    let links: Vec<_> = links
        .map(|link| wire::MergeLink {
            body: link.body.clone(),
            key: link.key.to_string(),
            signature: link.signature.clone(),
        })
        .collect();
    let next = before.checked_sub(links.len() as u64).filter(|next| *next > 0 && !links.is_empty());
    wire::MergeChainExport {
        queue: export.queue.0.clone(),
        base_branch: export.base_branch.clone(),
        head: chain(&export.head),
        links,
        next,
    }
}

/// The result of verifying a chain.
pub fn chain_verified(report: &ChainReport, next: Option<u64>) -> wire::MergeChainVerified {
    let link = |link: &LinkReport| wire::MergeLinkVerified {
        sequence: link.sequence,
        kind: link.kind.to_owned(),
        entry: link.entry.map(|entry| entry.0),
        commit: link.commit.to_string(),
        untested: link.untested.clone(),
        differences: link.differences.clone(),
    };
    wire::MergeChainVerified {
        links: report.links.iter().map(link).collect(),
        differences: report.differences.clone(),
        base: report.base.clone(),
        next,
    }
}

fn stats(tally: &Tally) -> wire::MergeStats {
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    wire::MergeStats {
        landed: tally.landed,
        removed: tally.removed.clone(),
        check_runs: tally.runs,
        checks_reused: tally.reused,
        checks_flaky: tally.flaky,
        flake_rate: share(tally.flaky, tally.concluded),
        check_runs_per_landing: share(tally.runs, tally.landed),
        turnaround_p50_ms: tally.turnaround.percentile_ms(50),
        turnaround_p95_ms: tally.turnaround.percentile_ms(95),
        wait_p50_ms: tally.wait.percentile_ms(50),
        wait_p95_ms: tally.wait.percentile_ms(95),
    }
}

/// An entry, in the queue or not; the namespace is its queue's.
pub fn entry(queue: &QueueId, namespace: &Namespace, detail: &EntryDetail) -> wire::MergeEntry {
    let EntryDetail { entry, outcome, certificate } = detail;
    let (status, reason) = match outcome {
        None => (status(entry.status), None),
        Some(EntryOutcome::Landed) => (wire::MergeStatus::Landed, None),
        Some(EntryOutcome::Removed(why)) => (status(why.status()), Some(reason(why))),
    };
    wire::MergeEntry {
        queue: queue.0.clone(),
        namespace: namespace.to_string(),
        entry: entry.id.0,
        change: entry.pull_request.id.clone(),
        head: entry.pull_request.head.to_string(),
        position: outcome.is_none().then_some(entry.position as u64 + 1),
        priority: entry.priority,
        status,
        reason,
        enqueued_at: entry.enqueued_at,
        enqueued_by: entry.enqueued_by.clone(),
        started_at: entry.started_at,
        completed_at: entry.completed_at,
        candidate: candidate(entry),
        checks: entry.checks.iter().map(check).collect(),
        fault: entry.fault.as_ref().map(|fault| wire::MergeFault {
            count: fault.count,
            message: fault.message.clone(),
            retry_at: fault.retry_at,
        }),
        certificate: certificate.as_ref().map(self::certificate),
    }
}

/// The entries in the queue, and those that left it; the namespace is the queue's.
pub fn entries(queue: &MergeQueue, namespace: &Namespace, history: &[EntryDetail]) -> wire::MergeEntries {
    let waiting = |entry: &QueueEntry| EntryDetail { entry: entry.clone(), outcome: None, certificate: None };
    wire::MergeEntries {
        waiting: queue.entries.iter().map(|it| entry(&queue.id, namespace, &waiting(it))).collect(),
        history: history.iter().map(|detail| entry(&queue.id, namespace, detail)).collect(),
    }
}

fn status(status: Status) -> wire::MergeStatus {
    match status {
        Status::Pending => wire::MergeStatus::Pending,
        Status::Updating => wire::MergeStatus::Updating,
        Status::Checking => wire::MergeStatus::Checking,
        Status::Ready => wire::MergeStatus::Ready,
        Status::Failed => wire::MergeStatus::Failed,
        Status::Cancelled => wire::MergeStatus::Cancelled,
    }
}

fn reason(reason: &Reason) -> wire::MergeReason {
    let details = match reason {
        Reason::Conflicted { paths, .. } => paths.clone(),
        Reason::HeadChanged { to } => vec![to.to_string()],
        Reason::InvalidConfig { problem } => vec![problem.clone()],
        Reason::ChecksFailed { checks } => checks.iter().map(|name| name.0.clone()).collect(),
        Reason::HookDeclined { text } => vec![text.clone()],
        Reason::Unusable { problem } => vec![problem.clone()],
        _ => Vec::new(),
    };
    let landed = |landed: &LandedChange| wire::MergeLanded {
        entry: landed.entry.0,
        change: landed.pull_request.clone(),
        commit: landed.commit.to_string(),
    };
    let collides_with = match reason {
        Reason::Conflicted { with, .. } => with.iter().map(landed).collect(),
        _ => Vec::new(),
    };
    wire::MergeReason { reason: reason.word().to_owned(), details, collides_with }
}

fn candidate(entry: &QueueEntry) -> Option<wire::MergeCandidate> {
    entry.candidate.as_ref().map(|candidate| wire::MergeCandidate {
        number: candidate.number,
        base: candidate.base.to_string(),
        head: candidate.head.to_string(),
        tree: candidate.merged.as_ref().map(|merged| merged.tree.to_string()),
        commit: candidate.merged.as_ref().map(|merged| merged.commit.to_string()),
    })
}

fn check(check: &Check) -> wire::MergeCheck {
    let conclusion = match check.conclusion() {
        Conclusion::Passed if check.is_reused => "reused",
        Conclusion::Passed => "passed",
        Conclusion::Flaky => "flaky",
        Conclusion::Culprit => "failed",
        Conclusion::Unusable => "unusable",
        Conclusion::BrokenBase => "broken_base",
        Conclusion::GaveUp => "gave_up",
        Conclusion::Open { .. } => "open",
    };
    wire::MergeCheck {
        name: check.name.0.clone(),
        conclusion: conclusion.to_owned(),
        runs: check.runs.iter().map(run).collect(),
    }
}

fn run(run: &CheckRun) -> wire::MergeRun {
    let (outcome, summary, log_hash) = match &run.outcome {
        None => (None, None, None),
        Some(RunOutcome::Passed { log_hash }) => (Some("passed"), None, Some(log_hash)),
        Some(RunOutcome::Failed { summary, log_hash }) => (Some("failed"), Some(summary), Some(log_hash)),
        Some(RunOutcome::Unusable { problem }) => (Some("unusable"), Some(problem), None),
        Some(RunOutcome::TimedOut) => (Some("timed_out"), None, None),
        Some(RunOutcome::Lost { reason }) => (Some("lost"), Some(reason), None),
    };
    wire::MergeRun {
        on: match run.on {
            CheckTarget::Candidate => "candidate".to_owned(),
            CheckTarget::Base => "base".to_owned(),
        },
        task: run.task.map(|task| task.to_string()),
        requested_at: run.requested_at,
        outcome: outcome.map(str::to_owned),
        summary: summary.cloned(),
        log_hash: log_hash.cloned(),
    }
}

/// The certificates of those entries that landed.
pub fn certificates(history: &[EntryDetail]) -> wire::MergeCertificates {
    let landed = history.iter().filter_map(|detail| detail.certificate.as_ref());
    wire::MergeCertificates { items: landed.map(certificate).collect() }
}

/// The certificate of a landing.
pub fn certificate(certificate: &Certificate) -> wire::MergeCertificate {
    wire::MergeCertificate {
        queue: certificate.queue.0.clone(),
        entry: certificate.entry.0,
        change: certificate.pull_request.clone(),
        base: certificate.base.to_string(),
        head: certificate.head.to_string(),
        tree: certificate.tree.to_string(),
        commit: certificate.commit.to_string(),
        checks: certificate
            .checks
            .iter()
            .map(|check| wire::MergeCertifiedCheck {
                name: check.name.0.clone(),
                command: check.command.clone(),
                result: check.result.clone(),
                log_hash: check.log_hash.clone(),
                runs: check.runs as u64,
            })
            .collect(),
        landed_at: certificate.landed_at,
    }
}

/// An entry of the event journal, delivered at `at`.
pub fn event(written: JournalEvent, at: Timestamp) -> wire::MergeEvent {
    let mut shown = wire::MergeEvent {
        event: String::new(),
        queue: written.queue.0,
        key: written.key,
        at,
        entry: None,
        change: None,
        head: None,
        enqueued_by: None,
        position: None,
        reason: None,
        results: Vec::new(),
        commit: None,
        tree: None,
        problem: None,
    };
    shown.event = match written.event {
        Event::QueueEntryAdded { entry, pull_request, pinned, position } => {
            pin(&mut shown, pinned);
            (shown.entry, shown.change) = (Some(entry.0), Some(pull_request));
            shown.position = Some(position as u64);
            "queue_entry_added"
        }
        Event::QueueEntryRemoved { entry, pull_request, pinned, reason: why, results } => {
            pin(&mut shown, pinned);
            (shown.entry, shown.change) = (Some(entry.0), Some(pull_request));
            shown.reason = Some(reason(&why));
            shown.results = results.iter().map(check).collect();
            "queue_entry_removed"
        }
        Event::PullRequestMerged { entry, pull_request, pinned, commit, tree } => {
            pin(&mut shown, pinned);
            (shown.entry, shown.change) = (Some(entry.0), Some(pull_request));
            shown.commit = commit.map(|commit| commit.to_string());
            shown.tree = tree.map(|tree| tree.to_string());
            "pull_request_merged"
        }
        Event::BaseMovedOutside { moved, accepted_by } => {
            shown.commit = Some(moved.to.to_string());
            shown.problem = Some(format!("from {}; accepted by {accepted_by}", moved.describe()));
            "base_moved_outside"
        }
        Event::QueuePaused { problem } => {
            shown.problem = Some(problem);
            "queue_paused"
        }
        Event::QueueFault { entry, problem } => {
            (shown.entry, shown.problem) = (Some(entry.0), Some(problem));
            "queue_trouble"
        }
        Event::QueueRemoved { by, entries } => {
            let by = by.as_deref().unwrap_or("an operator");
            shown.problem = Some(format!("removed by {by}; {entries} entries were cancelled"));
            "queue_removed"
        }
    }
    .to_owned();
    shown
}

fn pin(event: &mut wire::MergeEvent, pinned: Pinned) {
    event.head = pinned.head.map(|head| head.to_string());
    event.enqueued_by = pinned.enqueued_by;
}

/// The result of verifying a certificate.
pub fn verified(verified: &Verified) -> wire::MergeVerified {
    wire::MergeVerified {
        certificate: certificate(&verified.certificate),
        differences: verified.differences.clone(),
    }
}
