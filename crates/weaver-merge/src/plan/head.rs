//! Advances the head of the queue: one transition towards landing, or back.

use weaver_core::time::Timestamp;

use super::eject::is_on;
use super::{Action, CheckSet, Observations, Plan, Policy};
use crate::domain::{Candidate, EntryId, MergeError, Oid, Status};

impl Plan {
    pub(super) fn advance_head(
        &mut self,
        seen: &Observations,
        base: &Oid,
        checks: &CheckSet,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let Some(entry) = self.queue.current_entry() else { return Ok(()) };
        let (id, status) = (entry.id, entry.status);
        let head = entry.pull_request.head.clone();
        let is_void = entry.candidate.as_ref().is_some_and(|candidate| {
            (&candidate.base, &candidate.head) != (base, &head) || candidate.checks_id != checks.id
        });
        match status {
            Status::Pending | Status::Updating => self.build(id, base, &head, checks, now),
            // Another process may be moving the base right now. What was tested lands; a later push is a
            // later change.
            Status::Ready if entry.is_landing() && is_on(entry, base) => self.land(id, now),
            // What was tested is no longer what would land.
            Status::Checking | Status::Ready if is_void => self.rebuild(id, base, &head, checks, now),
            Status::Checking => self.advance_checks(id, seen, policy, now),
            Status::Ready => self.land(id, now),
            Status::Failed | Status::Cancelled => Err(MergeError::EntryNotFound(id)),
        }
    }

    /// Records which candidate to build, and plans the build.
    fn build(
        &mut self,
        id: EntryId,
        base: &Oid,
        head: &Oid,
        checks: &CheckSet,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        if self.is_backing_off(id, now)? {
            return Ok(());
        }
        let entry = self.queue.entry_mut(id)?;
        entry.status = Status::Updating;
        entry.started_at.get_or_insert(now);
        entry.checks = Vec::new();
        let is_requested = |candidate: &Candidate| {
            candidate.merged.is_none()
                && (&candidate.base, &candidate.head, &candidate.checks_id) == (base, head, &checks.id)
        };
        if !entry.candidate.as_ref().is_some_and(is_requested) {
            entry.candidates += 1;
            entry.candidate = Some(Candidate {
                number: entry.candidates,
                base: base.clone(),
                head: head.clone(),
                checks_id: checks.id.clone(),
                merged: None,
            });
        }
        self.actions.push(Action::Build { entry: id, base: base.clone(), head: head.clone() });
        Ok(())
    }

    fn rebuild(
        &mut self,
        id: EntryId,
        base: &Oid,
        head: &Oid,
        checks: &CheckSet,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let tasks = self.queue.stop_checks(id)?;
        self.stop(tasks);
        // Errors of the old candidate say nothing about the new one.
        self.queue.entry_mut(id)?.fault = None;
        self.build(id, base, head, checks, now)
    }

    /// Plans the landing, from the tested parent only.
    pub(super) fn land(&mut self, id: EntryId, now: Timestamp) -> Result<(), MergeError> {
        if self.is_backing_off(id, now)? {
            return Ok(());
        }
        let entry = self.queue.entry(id)?;
        if let (Some(candidate), Some(merged)) = (&entry.candidate, entry.merged()) {
            let (base, commit) = (candidate.base.clone(), merged.commit.clone());
            self.actions.push(Action::Land { entry: id, base, commit });
        }
        Ok(())
    }

    pub(super) fn is_backing_off(&mut self, id: EntryId, now: Timestamp) -> Result<bool, MergeError> {
        let retry_at = self.queue.entry(id)?.fault.as_ref().map(|fault| fault.retry_at);
        match retry_at {
            Some(at) if at > now => {
                self.wake(at);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
