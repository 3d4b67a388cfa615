//! Entries that landed, were withdrawn (closed, deleted, retargeted, made a draft, untriggered) or pushed to.

use weaver_core::time::Timestamp;

use super::{Observations, Plan, PullRequestSeen};
use crate::domain::{EntryId, EntryOutcome, MergeError, Oid, OnPush, QueueEntry, Reason, Status};

impl Plan {
    /// Completes the head if the base contains its candidate: the process that landed it may have died before
    /// reporting it.
    pub(super) fn detect_landing(&mut self, seen: &Observations, now: Timestamp) -> Result<bool, MergeError> {
        let head = self.queue.current_entry().filter(|entry| entry.status == Status::Ready);
        let Some(id) = head.filter(|_| seen.base_has_candidate).map(|entry| entry.id) else {
            return Ok(false);
        };
        let tasks = self.queue.complete(id, EntryOutcome::Landed, now)?;
        self.stop(tasks);
        Ok(true)
    }

    /// Removes withdrawn changes, except one that may be landing right now.
    pub(super) fn eject_withdrawn(
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
            let tasks = self.queue.complete(id, EntryOutcome::Removed(reason), now)?;
            self.stop(tasks);
        }
        Ok(())
    }

    /// Ejects entries whose branch was pushed to, or pins them to the new head. One that may be landing right
    /// now stays: what lands is the head that was tested.
    pub(super) fn follow_pushes(
        &mut self,
        seen: &Observations,
        base: &Oid,
        on_push: OnPush,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let pushed: Vec<(EntryId, Oid)> = self
            .queue
            .entries
            .iter()
            .filter(|entry| !(entry.is_landing() && is_on(entry, base)))
            .filter_map(|entry| match seen.pull_requests.get(&entry.id)? {
                PullRequestSeen::Present(change) => Some((entry, &change.pull_request.head)),
                PullRequestSeen::BranchDeleted => None,
            })
            .filter(|(entry, head)| entry.pull_request.head != **head)
            .map(|(entry, head)| (entry.id, head.clone()))
            .collect();
        for (id, to) in pushed {
            match on_push {
                OnPush::Eject => {
                    let reason = Reason::HeadChanged { to };
                    let tasks = self.queue.complete(id, EntryOutcome::Removed(reason), now)?;
                    self.stop(tasks);
                }
                // A candidate of the old head is void and built again.
                OnPush::Retest => self.queue.entry_mut(id)?.pull_request.head = to,
            }
        }
        Ok(())
    }
}

/// Whether the base is still the candidate's first parent, so that it can land.
pub(super) fn is_on(entry: &QueueEntry, base: &Oid) -> bool {
    entry.candidate.as_ref().is_some_and(|candidate| candidate.base == *base)
}

fn reason(seen: &PullRequestSeen, base_branch: &str) -> Option<Reason> {
    let change = match seen {
        PullRequestSeen::BranchDeleted => return Some(Reason::BranchDeleted),
        PullRequestSeen::Present(change) => change,
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
