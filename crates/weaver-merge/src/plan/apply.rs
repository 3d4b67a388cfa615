//! Reports, written into the queue. One about something that is no longer so (an older candidate, an entry
//! that left) changes nothing: it came late.

use weaver_core::time::Timestamp;

use super::{Policy, Report};
use crate::domain::{
    Check, CheckName, Departure, EntryId, MergeError, MergeQueue, Merged, Notice, Oid, PassedTree,
    PauseCause, QueueEntry, Reason, Status, Trouble,
};

/// Errors in a row after which people are told, and told again each time their number doubles.
const TELL_AFTER: u32 = 4;
/// So many different entries declined in a row in the same words are the hook's doing, and not theirs.
const DECLINES_MAX: usize = 3;

/// Writes a report into the queue; says whether anything changed.
///
/// # Errors
/// None that the reporter could do something about: the queue lost an entry it has.
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
        Report::Conflict { entry, base, head, paths } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            queue.depart(entry, Departure::Removed(Reason::Conflicted { paths }), now)?;
        }
        Report::AlreadyMerged { entry, base, head, is_outside } => {
            if !is_building(queue, entry, &base, &head) {
                return Ok(false);
            }
            let reason = if is_outside { Reason::MergedOutside } else { Reason::AlreadyMerged };
            queue.depart(entry, Departure::Removed(reason), now)?;
        }
        Report::Started { entry, candidate, check, number, task } => {
            let is_known = knows(queue, task);
            let is_current = |entry: &&mut QueueEntry| {
                entry.candidate.as_ref().is_some_and(|current| current.number == candidate)
            };
            let entry = queue.entry_mut(entry).ok().filter(is_current);
            let check = entry.and_then(|entry| entry.checks.iter_mut().find(|known| known.name == check));
            let run = check.and_then(|check| check.runs.iter_mut().find(|run| run.number == number));
            match run.filter(|run| run.task.is_none() && run.end.is_none()) {
                Some(run) => run.task = Some(task),
                // It was started for a candidate that is void by now. It must not be forgotten.
                None if !is_known => queue.stopping.push(task),
                None => return Ok(false),
            }
        }
        Report::Landed { entry, commit } => {
            if !is_landing(queue, entry, &commit) {
                return Ok(false);
            }
            queue.depart(entry, Departure::Landed, now)?;
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
            let reason = format!("`{}` cannot be moved: {problem}", queue.base_branch);
            queue.pause_for(PauseCause::Refused, reason, now);
        }
        Report::Trouble { entry, message } => return trouble(queue, entry, message, policy, now),
    }
    Ok(true)
}

fn is_landing(queue: &MergeQueue, id: EntryId, commit: &Oid) -> bool {
    queue.entry(id).is_ok_and(|entry| {
        entry.status == Status::Ready && entry.merged().is_some_and(|merged| merged.commit == *commit)
    })
}

/// The hook's word counts for the change, until it says the same of everybody.
fn declined(queue: &mut MergeQueue, id: EntryId, text: &str, now: Timestamp) -> Result<(), MergeError> {
    let is_of_all = queue.note_declined(id, text, DECLINES_MAX);
    queue.depart(id, Departure::Removed(Reason::HookDeclined { text: text.to_owned() }), now)?;
    if is_of_all {
        let reason = format!(
            "a hook declined {DECLINES_MAX} changes in a row in the same words: {text}; look at the hook, put the changes in line \
             again, and resume the queue"
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
    // The same tree under the same checks gives the same answer, as far as checks answer for trees at all.
    let is_reused = queue.passed.contains(&passed);
    if is_reused {
        queue.tally.reused += names.len() as u64;
    }
    let entry = queue.entry_mut(id)?;
    entry.checks = names.into_iter().map(|name| Check { is_reused, ..Check::new(name) }).collect();
    entry.status = Status::Checking;
    entry.trouble = None;
    if let Some(candidate) = &mut entry.candidate {
        candidate.merged = Some(merged);
    }
    Ok(())
}

fn trouble(
    queue: &mut MergeQueue,
    id: EntryId,
    message: String,
    policy: &Policy,
    now: Timestamp,
) -> Result<bool, MergeError> {
    let Ok(entry) = queue.entry_mut(id) else { return Ok(false) };
    let count = entry.trouble.as_ref().map_or(0, |trouble| trouble.count).saturating_add(1);
    entry.trouble = Some(Trouble { count, message: message.clone(), retry_at: policy.retry_at(count, now) });
    if entry.status == Status::Updating {
        // Others do not wait behind it in a half-built state: it waits like everybody else.
        entry.status = Status::Pending;
        entry.candidate = None;
    }
    if count >= TELL_AFTER && count.is_power_of_two() {
        queue.outbox.push(Notice::Trouble { entry: id, message });
    }
    Ok(true)
}
