//! The checks of the head's candidate: note what ended, judge, start what is missing.

use weaver_core::time::Timestamp;

use super::{Action, Observations, Plan, Policy, RunSeen};
use crate::domain::{
    CheckName, CheckRun, Departure, EntryId, Judgement, MergeError, On, PASSED_MAX, PassedTree, Reason,
    RunEnd, Status,
};

impl Plan {
    pub(super) fn move_checks(
        &mut self,
        id: EntryId,
        seen: &Observations,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        self.note_ends(id, seen, policy, now)?;
        let checks = &self.queue.entry(id)?.checks;
        let judged: Vec<(CheckName, Judgement)> =
            checks.iter().map(|check| (check.name.clone(), check.judge())).collect();
        let named = |wanted: Judgement| {
            let found = judged.iter().filter(|(_, judgement)| *judgement == wanted);
            found.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let broken = named(Judgement::BrokenBase);
        if !broken.is_empty() {
            return self.blame_the_base(id, &broken, now);
        }
        let culprits = named(Judgement::Culprit);
        if !culprits.is_empty() {
            self.queue.tally.judged += culprits.len() as u64;
            let reason = Reason::ChecksFailed { checks: culprits };
            let tasks = self.queue.depart(id, Departure::Removed(reason), now)?;
            self.stop(tasks);
            return Ok(());
        }
        if let Some(name) = named(Judgement::GaveUp).first() {
            let reason = format!("the check `{name}` cannot be run to its end; see the log of its tasks");
            return self.let_go(id, reason, now);
        }
        let flaky = named(Judgement::Flaky).len();
        if flaky + named(Judgement::Passed).len() == judged.len() {
            return self.pass(id, flaky, now);
        }
        self.start_missing(id, &judged, seen.slots, now)
    }

    /// Writes down how runs ended, and ends those that nothing was heard of for too long.
    fn note_ends(
        &mut self,
        id: EntryId,
        seen: &Observations,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let mut silent = Vec::new();
        let mut next_deadline: Option<Timestamp> = None;
        let entry = self.queue.entry_mut(id)?;
        for run in entry.checks.iter_mut().flat_map(|check| &mut check.runs) {
            let (Some(task), None) = (run.task, &run.end) else { continue };
            let last_sign_at = match seen.runs.get(&task) {
                Some(RunSeen::Over(end)) => {
                    run.end = Some(end.clone());
                    continue;
                }
                Some(RunSeen::Stopping) => {
                    // Somebody cancelled the task by hand. It is asked for again.
                    run.end = Some(RunEnd::Lost { reason: "its task was cancelled".to_owned() });
                    silent.push(task);
                    continue;
                }
                Some(RunSeen::UnderWay { last_sign_at }) => *last_sign_at,
                None => run.requested_at,
            };
            let deadline = last_sign_at.max(run.requested_at).saturating_add(policy.check_timeout());
            if deadline <= now {
                run.end = Some(RunEnd::TimedOut);
                silent.push(task);
            } else {
                next_deadline = Some(next_deadline.map_or(deadline, |other| other.min(deadline)));
            }
        }
        self.queue.stopping.extend(&silent);
        self.stop(silent);
        if let Some(deadline) = next_deadline {
            self.wake(deadline);
        }
        Ok(())
    }

    /// The base fails by itself: nobody in the queue is to blame, and nothing can land until it is mended.
    fn blame_the_base(
        &mut self,
        id: EntryId,
        checks: &[CheckName],
        now: Timestamp,
    ) -> Result<(), MergeError> {
        let names: Vec<&str> = checks.iter().map(|name| name.0.as_str()).collect();
        let base = self.queue.base_branch.clone();
        let reason = format!("`{base}` itself fails {}; mend it and resume the queue", names.join(", "));
        self.let_go(id, reason, now)
    }

    /// Pauses and gives the candidate up, blaming nobody.
    fn let_go(&mut self, id: EntryId, reason: String, now: Timestamp) -> Result<(), MergeError> {
        let tasks = self.queue.stop_checks(id)?;
        self.stop(tasks);
        let entry = self.queue.entry_mut(id)?;
        entry.status = Status::Updating;
        entry.candidate = None;
        entry.checks = Vec::new();
        self.queue.pause(reason, now);
        Ok(())
    }

    fn pass(&mut self, id: EntryId, flaky: usize, now: Timestamp) -> Result<(), MergeError> {
        self.queue.tally.flaky += flaky as u64;
        let ran = self.queue.entry(id)?.checks.iter().filter(|check| !check.is_reused).count();
        self.queue.tally.judged += ran as u64;
        let tasks = self.queue.stop_checks(id)?;
        self.stop(tasks);
        let entry = self.queue.entry_mut(id)?;
        entry.status = Status::Ready;
        entry.trouble = None;
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

    /// Asks for the runs that are missing, as far as there are slots, and again for those whose task is not
    /// known.
    fn start_missing(
        &mut self,
        id: EntryId,
        judged: &[(CheckName, Judgement)],
        mut slots: usize,
        now: Timestamp,
    ) -> Result<(), MergeError> {
        if self.is_waiting_out_trouble(id, now)? {
            return Ok(());
        }
        let mut count = 0;
        let entry = self.queue.entry_mut(id)?;
        for (check, (_, judgement)) in entry.checks.iter_mut().zip(judged) {
            let Judgement::Open { needs_candidate, needs_base } = *judgement else { continue };
            for (on, is_needed) in [(On::Candidate, needs_candidate), (On::Base, needs_base)] {
                if is_needed && slots > 0 {
                    slots -= 1;
                    count += 1;
                    let number = check.runs.len() as u32;
                    check.runs.push(CheckRun { on, number, requested_at: now, task: None, end: None });
                }
            }
        }
        self.queue.tally.runs += count;
        self.ask_for_runs(id)
    }

    fn ask_for_runs(&mut self, id: EntryId) -> Result<(), MergeError> {
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
                        On::Candidate => merged.commit.clone(),
                        On::Base => candidate.base.clone(),
                    },
                    candidate: candidate.number,
                });
            }
        }
        Ok(())
    }
}
