//! The checks of the head's candidate: record outcomes, conclude, start missing runs.

use weaver_core::time::Timestamp;

use super::{Action, Observations, Plan, Policy, RunSeen};
use crate::domain::{
    CheckName, CheckRun, CheckTarget, Conclusion, EntryId, EntryOutcome, MergeError, PASSED_MAX, PassedTree,
    Reason, RunOutcome, Status,
};

impl Plan {
    pub(super) fn advance_checks(
        &mut self,
        id: EntryId,
        seen: &Observations,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        self.record_outcomes(id, seen, policy, now)?;
        let checks = &self.queue.entry(id)?.checks;
        let conclusions: Vec<(CheckName, Conclusion)> =
            checks.iter().map(|check| (check.name.clone(), check.conclusion())).collect();
        let named = |wanted: Conclusion| {
            let found = conclusions.iter().filter(|(_, conclusion)| *conclusion == wanted);
            found.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let broken = named(Conclusion::BrokenBase);
        if !broken.is_empty() {
            return self.pause_for_broken_base(id, &broken, now);
        }
        let culprits = named(Conclusion::Culprit);
        if !culprits.is_empty() {
            self.queue.tally.concluded += culprits.len() as u64;
            let reason = Reason::ChecksFailed { checks: culprits };
            let tasks = self.queue.complete(id, EntryOutcome::Removed(reason), now)?;
            self.stop(tasks);
            return Ok(());
        }
        if !named(Conclusion::Unusable).is_empty() {
            return self.eject_unusable(id, now);
        }
        if let Some(name) = named(Conclusion::GaveUp).first() {
            let reason =
                format!("check `{name}` could not be completed; see its tasks' logs, then resume the queue");
            return self.pause_and_rebuild(id, reason, now);
        }
        let flaky = named(Conclusion::Flaky).len();
        if flaky + named(Conclusion::Passed).len() == conclusions.len() {
            return self.pass(id, flaky, now);
        }
        self.start_missing(id, &conclusions, seen.slots, now)
    }

    /// Records outcomes, and times out runs whose task made no progress for `check_timeout_s`.
    fn record_outcomes(
        &mut self,
        id: EntryId,
        seen: &Observations,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let mut stopped = Vec::new();
        let mut next_deadline: Option<Timestamp> = None;
        let entry = self.queue.entry_mut(id)?;
        for run in entry.checks.iter_mut().flat_map(|check| &mut check.runs) {
            let (Some(task), None) = (run.task, &run.outcome) else { continue };
            let last_seen_at = match seen.runs.get(&task) {
                Some(RunSeen::Ended(outcome)) => {
                    run.outcome = Some(outcome.clone());
                    continue;
                }
                Some(RunSeen::Stopping) => {
                    // An operator cancelled the task. It is requested again.
                    run.outcome = Some(RunOutcome::Lost { reason: "its task was cancelled".to_owned() });
                    stopped.push(task);
                    continue;
                }
                Some(RunSeen::Active { last_seen_at }) => *last_seen_at,
                None => run.requested_at,
            };
            let deadline = last_seen_at.max(run.requested_at).saturating_add(policy.check_timeout());
            if deadline <= now {
                run.outcome = Some(RunOutcome::TimedOut);
                stopped.push(task);
            } else {
                next_deadline = Some(next_deadline.map_or(deadline, |other| other.min(deadline)));
            }
        }
        self.queue.stopping.extend(&stopped);
        self.stop(stopped);
        if let Some(deadline) = next_deadline {
            self.wake(deadline);
        }
        Ok(())
    }

    /// The checks fail on the base alone: no entry is ejected, and nothing can land until the base is fixed.
    fn pause_for_broken_base(
        &mut self,
        id: EntryId,
        checks: &[CheckName],
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let names: Vec<&str> = checks.iter().map(|name| name.0.as_str()).collect();
        let base = self.queue.base_branch.clone();
        let reason = format!("`{base}` itself fails {}; fix it and resume the queue", names.join(", "));
        self.pause_and_rebuild(id, reason, now)
    }

    /// The candidate cannot be checked out while the base can.
    fn eject_unusable(&mut self, id: EntryId, now: Timestamp) -> Result<(), MergeError> {
        let runs = self.queue.entry(id)?.checks.iter().flat_map(|check| &check.runs);
        let problem = runs.into_iter().find_map(|run| match (&run.on, &run.outcome) {
            (CheckTarget::Candidate, Some(RunOutcome::Unusable { problem })) => Some(problem.clone()),
            _ => None,
        });
        let reason = Reason::Unusable { problem: problem.unwrap_or_default() };
        let tasks = self.queue.complete(id, EntryOutcome::Removed(reason), now)?;
        self.stop(tasks);
        Ok(())
    }

    /// Pauses the queue. The entry stays, and keeps candidate and runs for the operator to look at: when the
    /// queue is resumed, another candidate replaces them.
    fn pause_and_rebuild(&mut self, id: EntryId, reason: String, now: Timestamp) -> Result<(), MergeError> {
        let tasks = self.queue.stop_checks(id)?;
        self.stop(tasks);
        self.queue.entry_mut(id)?.status = Status::Updating;
        self.queue.pause(reason, now);
        Ok(())
    }

    fn pass(&mut self, id: EntryId, flaky: usize, now: Timestamp) -> Result<(), MergeError> {
        self.queue.tally.flaky += flaky as u64;
        let ran = self.queue.entry(id)?.checks.iter().filter(|check| !check.is_reused).count();
        self.queue.tally.concluded += ran as u64;
        let tasks = self.queue.stop_checks(id)?;
        self.stop(tasks);
        let entry = self.queue.entry_mut(id)?;
        entry.status = Status::Ready;
        entry.fault = None;
        let passed = entry.candidate.as_ref().zip(entry.merged());
        let passed = passed.map(|(candidate, merged)| PassedTree {
            tree: merged.tree.clone(),
            checks_id: candidate.checks_id.clone(),
        });
        if let Some(passed) = passed.filter(|passed| !self.queue.passed.contains(passed)) {
            self.queue.passed.push(passed);
            let surplus = self.queue.passed.len().saturating_sub(PASSED_MAX);
            self.queue.passed.drain(..surplus);
        }
        self.land(id, now)
    }

    /// Requests missing runs as far as there are slots, and again those whose task is not known.
    fn start_missing(
        &mut self,
        id: EntryId,
        conclusions: &[(CheckName, Conclusion)],
        mut slots: usize,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        if self.is_backing_off(id, now)? {
            return Ok(());
        }
        let mut count = 0;
        let entry = self.queue.entry_mut(id)?;
        for (check, (_, conclusion)) in entry.checks.iter_mut().zip(conclusions) {
            let Conclusion::Open { needs_candidate, needs_base } = *conclusion else { continue };
            for (on, is_needed) in
                [(CheckTarget::Candidate, needs_candidate), (CheckTarget::Base, needs_base)]
            {
                if is_needed && slots > 0 {
                    slots -= 1;
                    count += 1;
                    let number = check.runs.len() as u32;
                    check.runs.push(CheckRun { on, number, requested_at: now, task: None, outcome: None });
                }
            }
        }
        self.queue.tally.runs += count;
        self.request_runs(id)
    }

    /// Requests the runs whose task is not known. One that exists is found by its idempotency key.
    pub(super) fn request_runs(&mut self, id: EntryId) -> Result<(), MergeError> {
        let entry = self.queue.entry(id)?;
        let Some((candidate, merged)) = entry.candidate.as_ref().zip(entry.merged()) else { return Ok(()) };
        for check in &entry.checks {
            for run in check.open_runs().filter(|run| run.task.is_none()) {
                self.actions.push(Action::StartCheck {
                    entry: id,
                    check: check.name.clone(),
                    on: run.on,
                    number: run.number,
                    base: candidate.base.clone(),
                    commit: match run.on {
                        CheckTarget::Candidate => merged.commit.clone(),
                        CheckTarget::Base => candidate.base.clone(),
                    },
                    candidate: candidate.number,
                });
            }
        }
        Ok(())
    }
}
