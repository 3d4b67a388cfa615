//! Removes a queue: cancels its entries, announces the removal, and completes it once nothing is left to do.

use weaver_core::time::Timestamp;

use super::{BaseSeen, Observations, Plan, RunSeen};
use crate::domain::{EntryId, EntryOutcome, MergeError, Notice, Reason, Status};

/// Entries cancelled by one plan. Their notices must fit the document, beside the entries that are left.
const BATCH: usize = 100;

impl Plan {
    /// One step of a removal. Nothing is started any more, and the base is not moved.
    pub(super) fn advance_removal(&mut self, seen: &Observations, now: Timestamp) -> Result<(), MergeError> {
        if !self.queue.entries.is_empty() {
            return self.cancel_entries(seen, now);
        }
        let has_active_checks = self.has_active_checks(seen);
        let Some(removal) = &mut self.queue.removal else { return Ok(()) };
        if !removal.is_announced {
            removal.is_announced = true;
            let notice = Notice::QueueRemoved { by: removal.by.clone(), entries: removal.entries };
            self.queue.outbox.push(notice);
            return Ok(());
        }
        // Everything is published, and every check task is cancelled: its worker stops it, as after any
        // cancel.
        if self.queue.outbox.is_empty() && !has_active_checks {
            removal.completed_at = Some(now);
            self.queue.stopping.clear();
            self.queue.passed.clear();
            self.queue.declines = None;
            self.actions.clear();
        }
        Ok(())
    }

    fn cancel_entries(&mut self, seen: &Observations, now: Timestamp) -> Result<(), MergeError> {
        // A ready entry is removed only if its base was gone. If that came back, it may have landed.
        let is_ready = self.queue.current_entry().is_some_and(|entry| entry.status == Status::Ready);
        if self.detect_landing(seen, now)? || is_ready && matches!(seen.base, BaseSeen::Unreachable(_)) {
            return Ok(());
        }
        // A task may exist without being recorded: the process that enqueued it was killed, or is about to
        // enqueue it. Requesting it again finds or makes it, so that it can be cancelled.
        let others = self.actions.len();
        if let Some(id) = self.queue.current_entry().map(|entry| entry.id) {
            self.request_runs(id)?;
        }
        if self.actions.len() > others {
            return Ok(());
        }
        // A queue that breaks an invariant can only be saved without its entries.
        let is_sound = self.queue.validate().is_ok();
        if is_sound && !self.queue.outbox.is_empty() {
            return Ok(());
        }
        let count = if is_sound { BATCH } else { self.queue.entries.len() };
        let ids: Vec<EntryId> = self.queue.entries.iter().take(count).map(|entry| entry.id).collect();
        for id in ids {
            let tasks = self.queue.complete(id, EntryOutcome::Removed(Reason::QueueRemoved), now)?;
            self.stop(tasks);
        }
        Ok(())
    }

    fn has_active_checks(&self, seen: &Observations) -> bool {
        let is_active = |task| matches!(seen.runs.get(task), None | Some(RunSeen::Active { .. }));
        self.queue.stopping.iter().any(is_active)
    }
}
