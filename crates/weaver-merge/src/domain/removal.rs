//! Removing a queue, and adding it again.
//!
//! ```text
//! live ─ begin_removal ─▶ being removed ─ (the planner) ─▶ removed ─ revive ─▶ live
//! ```
//!
//! The mark is stored first. Then entries are cancelled, their tasks stopped and every notice published; the
//! last write completes the removal. A process that dies in between leaves the mark, and any engine
//! continues.
//!
//! The document stays: its version only grows, so that a process with an older view cannot write to a queue
//! of the same name that was added later. Entry numbers, statistics and the head of the signed chain continue
//! there.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{MergeError, MergeQueue, PRIORITY_DEFAULT};

/// Mark of a queue that is being removed, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// By the clock of the node that stored the mark.
    pub requested_at: Timestamp,
    /// The authenticated subject or local user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Entries that were in the queue, and are cancelled.
    pub entries: usize,
    /// Whether the last notice, that of the removal, is in the outbox or published.
    #[serde(default)]
    pub is_announced: bool,
    /// None while something is left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// How a queue is removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoveOptions {
    /// Cancel open entries; without it they refuse the removal.
    pub cancel_entries: bool,
    /// The authenticated subject or local user.
    pub by: Option<String>,
}

impl MergeQueue {
    /// Marks the queue as being removed; repeating it changes nothing. `can_land` is false if the base branch
    /// or its repository no longer exists: then a ready entry cannot land either.
    ///
    /// # Errors
    /// [`MergeError::OpenEntries`], or [`MergeError::Landing`] if an entry passed its checks: a process may
    /// be moving the base right now.
    pub fn begin_removal(
        &mut self,
        options: &RemoveOptions,
        can_land: bool,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        if self.removal.is_some() {
            return Ok(());
        }
        let entries = self.entries.len();
        if entries > 0 && !options.cancel_entries {
            return Err(MergeError::OpenEntries(entries));
        }
        if let Some(landing) = self.entries.iter().find(|entry| entry.is_landing() && can_land) {
            return Err(MergeError::Landing(landing.id));
        }
        let by = options.by.clone();
        self.removal =
            Some(Removal { requested_at: now, by, entries, is_announced: false, completed_at: None });
        // The reason of a pause is nothing to the queue that may be added later.
        self.paused = None;
        Ok(())
    }

    /// Whether its removal is complete: only its past is left.
    pub fn is_removed(&self) -> bool {
        self.removal.as_ref().is_some_and(|removal| removal.completed_at.is_some())
    }

    /// Refuses a queue that is being removed, or was.
    ///
    /// # Errors
    /// [`MergeError::QueueRemoved`].
    pub fn refuse_removed(&self) -> Result<(), MergeError> {
        match &self.removal {
            Some(_) => Err(MergeError::QueueRemoved(self.id.clone())),
            None => Ok(()),
        }
    }

    /// The queue as it is added again: with its past, and the settings of `new`.
    #[must_use]
    pub fn revive(self, new: &Self) -> Self {
        Self {
            repository: new.repository.clone(),
            namespace: new.namespace.clone(),
            created_at: new.created_at,
            priority: PRIORITY_DEFAULT,
            on_foreign: None,
            removal: None,
            ..self
        }
    }
}
