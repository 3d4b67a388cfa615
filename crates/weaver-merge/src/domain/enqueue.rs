//! Adding a change to a queue, and the head it is pinned to.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{
    ENTRIES_MAX, EntryId, EntryOutcome, MergeError, MergeQueue, Notice, Oid, PRIORITY_LOWEST,
    PullRequestState, QueueEntry, Reason, Status,
};

/// What a queue does when a branch is pushed to after it was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPush {
    /// The entry is ejected: what was approved is not what would land.
    #[default]
    Eject,
    /// The entry is pinned to the new head and tested again.
    Retest,
}

/// How a change is enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueOptions {
    /// 0 to 9; higher numbers are clamped.
    pub priority: u8,
    /// The authenticated subject or local user.
    pub by: Option<String>,
    /// The only head that may be enqueued; none for any.
    pub head: Option<Oid>,
    /// Setting of the base's configuration.
    pub on_push: OnPush,
}

impl MergeQueue {
    /// Adds a change behind all entries of the same or a more urgent priority, with default options.
    pub fn enqueue(
        &mut self,
        change: &PullRequestState,
        priority: u8,
        now: Timestamp,
    ) -> Result<EntryId, MergeError> {
        let options = EnqueueOptions { priority, by: None, head: None, on_push: OnPush::default() };
        self.enqueue_with(change, &options, now)
    }

    /// Adds a change, pinned to its current head, behind all entries of the same or a more urgent priority.
    /// An entry of an older head that a push has outdated makes room for it.
    pub fn enqueue_with(
        &mut self,
        change: &PullRequestState,
        options: &EnqueueOptions,
        now: Timestamp,
    ) -> Result<EntryId, MergeError> {
        let (id, head) = (&change.pull_request.id, &change.pull_request.head);
        if let Some(wanted) = options.head.as_ref().filter(|wanted| *wanted != head) {
            return Err(MergeError::HeadMismatch {
                pull_request: id.clone(),
                expected: wanted.clone(),
                actual: head.clone(),
            });
        }
        let same = self.entries.iter().find(|entry| entry.pull_request.id == *id);
        let is_outdated = |entry: &QueueEntry| {
            entry.pull_request.head != *head && !entry.is_landing() && options.on_push == OnPush::Eject
        };
        let outdated = match same {
            Some(entry) if is_outdated(entry) => Some(entry.id),
            Some(entry) => {
                return Err(MergeError::AlreadyInQueue {
                    pull_request: id.clone(),
                    position: entry.position + 1,
                });
            }
            None => None,
        };
        change.validate(&self.base_branch)?;
        if let Some(outdated) = outdated {
            // Its tasks are stopped by the next plan.
            self.complete(outdated, EntryOutcome::Removed(Reason::HeadChanged { to: head.clone() }), now)?;
        }
        if self.entries.len() >= ENTRIES_MAX {
            return Err(MergeError::QueueFull(self.entries.len()));
        }
        let id = EntryId(self.next_entry);
        self.next_entry += 1;
        let entry = QueueEntry {
            id,
            pull_request: change.pull_request.clone(),
            position: 0,
            priority: options.priority.min(PRIORITY_LOWEST),
            status: Status::Pending,
            enqueued_at: now,
            enqueued_by: options.by.clone(),
            started_at: None,
            completed_at: None,
            candidates: 0,
            candidate: None,
            checks: Vec::new(),
            fault: None,
        };
        let position = self.insert(entry.clone());
        self.outbox.push(Notice::Added { entry: Box::new(entry), position: position + 1 });
        Ok(id)
    }
}
