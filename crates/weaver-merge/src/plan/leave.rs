//! Entries that leave because of what happened to the change itself.

use weaver_core::time::Timestamp;

use super::{Observations, Plan, PullRequestSeen};
use crate::domain::{Departure, EntryId, MergeError, Oid, QueueEntry, Reason, Status};

impl Plan {
    /// Whether the head has landed: its base moved, and whoever moved it may have died before saying so.
    pub(super) fn note_landing(&mut self, seen: &Observations, now: Timestamp) -> Result<bool, MergeError> {
        let head = self.queue.current_entry().filter(|entry| entry.status == Status::Ready);
        let Some(id) = head.filter(|_| seen.base_has_candidate).map(|entry| entry.id) else {
            return Ok(false);
        };
        let tasks = self.queue.depart(id, Departure::Landed, now)?;
        self.stop(tasks);
        Ok(true)
    }

    /// Takes out the changes that were closed, deleted, retargeted, made drafts of, or whose trigger is gone.
    pub(super) fn take_out_departed(
        &mut self,
        seen: &Observations,
        base: &Oid,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let base_branch = &self.queue.base_branch;
        let leaving: Vec<(EntryId, Reason)> = self
            .queue
            .entries
            .iter()
            .filter(|entry| !(entry.is_landing() && is_on(entry, base)))
            .filter_map(|entry| Some((entry.id, reason(seen.pull_requests.get(&entry.id)?, base_branch)?)))
            .collect();
        for (id, reason) in leaving {
            let tasks = self.queue.depart(id, Departure::Removed(reason), now)?;
            self.stop(tasks);
        }
        Ok(())
    }
}

/// Whether the base is where the candidate was built, so that it can still land.
pub(super) fn is_on(entry: &QueueEntry, base: &Oid) -> bool {
    entry.candidate.as_ref().is_some_and(|candidate| candidate.base == *base)
}

fn reason(seen: &PullRequestSeen, base_branch: &str) -> Option<Reason> {
    let change = match seen {
        PullRequestSeen::BranchDeleted => return Some(Reason::BranchDeleted),
        PullRequestSeen::Is(change) => change,
    };
    if !change.is_open {
        Some(Reason::Closed)
    } else if change.base_branch != base_branch {
        Some(Reason::Retargeted)
    } else if change.is_draft {
        Some(Reason::Draft)
    } else if !change.has_trigger {
        Some(Reason::TriggerRemoved)
    } else {
        None
    }
}
