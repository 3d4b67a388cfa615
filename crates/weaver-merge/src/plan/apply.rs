//! Applies reports to the queue. A late report, about an older candidate or a removed entry, changes nothing.

use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::{Policy, Report};
use crate::domain::{
    Check, CheckName, EntryId, EntryOutcome, Fault, MergeError, MergeQueue, Merged, Notice, Oid, PassedTree,
    PauseCause, QueueEntry, Reason, Status,
};

/// Consecutive errors before a notification; another follows each time their number doubles.
const NOTIFY_AFTER: u32 = 4;
/// After this many different entries declined in a row with the same text, the hook is to blame.
const DECLINES_MAX: usize = 3;

/// Applies a report; true if the queue changed.
///
/// # Errors
/// Only if the queue is inconsistent.
pub fn apply(
    queue: &mut MergeQueue,
    report: Report,
    policy: &Policy,
    now: Timestamp,
) -> Result<bool, MergeError> {
    match report {
        Report::Built { entry, base, head, merged, checks } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            built(queue, entry, merged, checks)?;
        }
        Report::Conflict { entry, base, head, paths, with } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            queue.complete(entry, EntryOutcome::Removed(Reason::Conflicted { paths, with }), now)?;
        }
        Report::InvalidConfig { entry, base, head, problem } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            queue.complete(entry, EntryOutcome::Removed(Reason::InvalidConfig { problem }), now)?;
        }
        Report::Unusable { entry, base, head, problem } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            queue.complete(entry, EntryOutcome::Removed(Reason::Unusable { problem }), now)?;
        }
        Report::AlreadyMerged { entry, base, head, is_outside } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            let reason = if is_outside { Reason::MergedOutside } else { Reason::AlreadyMerged };
            queue.complete(entry, EntryOutcome::Removed(reason), now)?;
        }
        Report::Started { entry, candidate, check, number, task } => {
            return Ok(started(queue, entry, candidate, &check, number, task));
        }
        Report::Landed { entry, commit } => {
            if !is_landing(queue, entry, &commit) {
                return Ok(false);
            }
            queue.complete(entry, EntryOutcome::Landed, now)?;
        }
        Report::Declined { entry, commit, text } => {
            if !is_landing(queue, entry, &commit) {
                return Ok(false);
            }
            declined(queue, entry, &text, now)?;
        }
        Report::Refused { entry, commit, problem } => {
            if !is_landing(queue, entry, &commit) {
                return Ok(false);
            }
            let reason = format!("cannot move `{}`: {problem}", queue.base_branch);
            queue.pause_for(PauseCause::Refused, reason, now);
        }
        Report::Fault { entry, message } => return fault(queue, entry, message, policy, now),
    }
    Ok(true)
}

/// Records the task of a run; false if it is known already.
fn started(
    queue: &mut MergeQueue,
    id: EntryId,
    candidate: u32,
    name: &CheckName,
    number: u32,
    task: TaskId,
) -> bool {
    let is_known = knows(queue, task);
    let is_current =
        |entry: &&mut QueueEntry| entry.candidate.as_ref().is_some_and(|current| current.number == candidate);
    let entry = queue.entry_mut(id).ok().filter(is_current);
    let check = entry.and_then(|entry| entry.checks.iter_mut().find(|known| known.name == *name));
    let run = check.and_then(|check| check.runs.iter_mut().find(|run| run.number == number));
    match run.filter(|run| run.task.is_none() && run.outcome.is_none()) {
        Some(run) => run.task = Some(task),
        // It was started for a candidate that is void by now: it still has to be stopped.
        None if !is_known => queue.stopping.push(task),
        None => return false,
    }
    true
}

fn is_landing(queue: &MergeQueue, id: EntryId, commit: &Oid) -> bool {
    queue.entry(id).is_ok_and(|entry| {
        entry.status == Status::Ready && entry.merged().is_some_and(|merged| merged.commit == *commit)
    })
}

/// Ejects the entry, and pauses the queue if the hook declines every entry with the same text.
fn declined(queue: &mut MergeQueue, id: EntryId, text: &str, now: Timestamp) -> Result<(), MergeError> {
    let is_hook_to_blame = queue.record_decline(id, text, DECLINES_MAX);
    queue.complete(id, EntryOutcome::Removed(Reason::HookDeclined { text: text.to_owned() }), now)?;
    if is_hook_to_blame {
        let reason = format!(
            "a hook declined {DECLINES_MAX} changes in a row with the same text: {text}; \
             fix the hook, enqueue the changes again, and resume the queue"
        );
        queue.pause_for(PauseCause::Declined, reason, now);
    }
    Ok(())
}

fn is_of(entry: &QueueEntry, base: &Oid, head: &Oid) -> bool {
    entry.candidate.as_ref().is_some_and(|candidate| (&candidate.base, &candidate.head) == (base, head))
}

fn is_building(queue: &MergeQueue, id: EntryId, base: &Oid, head: &Oid) -> bool {
    let entry = queue.entry(id).ok();
    entry.is_some_and(|entry| entry.status == Status::Updating && is_of(entry, base, head))
}

fn knows(queue: &MergeQueue, task: weaver_core::id::TaskId) -> bool {
    let runs = queue.entries.iter().flat_map(|entry| &entry.checks).flat_map(|check| &check.runs);
    queue.stopping.contains(&task) || runs.into_iter().any(|run| run.task == Some(task))
}

fn built(
    queue: &mut MergeQueue,
    id: EntryId,
    merged: Merged,
    names: Vec<CheckName>,
) -> Result<(), MergeError> {
    let checks_id = queue.entry(id)?.candidate.as_ref().map(|candidate| candidate.checks_id.clone());
    let passed = PassedTree { tree: merged.tree.clone(), checks_id: checks_id.unwrap_or_default() };
    // The same tree under the same checks is assumed to have the same result.
    let is_reused = queue.passed.contains(&passed);
    if is_reused {
        queue.tally.reused += names.len() as u64;
    }
    let entry = queue.entry_mut(id)?;
    entry.checks = names.into_iter().map(|name| Check { is_reused, ..Check::new(name) }).collect();
    entry.status = Status::Checking;
    entry.fault = None;
    if let Some(candidate) = &mut entry.candidate {
        candidate.merged = Some(merged);
    }
    Ok(())
}

fn fault(
    queue: &mut MergeQueue,
    id: EntryId,
    message: String,
    policy: &Policy,
    now: Timestamp,
) -> Result<bool, MergeError> {
    let Ok(entry) = queue.entry_mut(id) else { return Ok(false) };
    let count = entry.fault.as_ref().map_or(0, |fault| fault.count).saturating_add(1);
    entry.fault = Some(Fault { count, message: message.clone(), retry_at: policy.retry_at(count, now) });
    if entry.status == Status::Updating {
        // Not left half-built: it is pending until the backoff is over.
        entry.status = Status::Pending;
        entry.candidate = None;
    }
    if count >= NOTIFY_AFTER && count.is_power_of_two() {
        queue.outbox.push(Notice::Fault { entry: id, message });
    }
    Ok(true)
}
