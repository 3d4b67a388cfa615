//! The checks of a merge candidate: their runs, the outcome of each run, and the conclusion.

use serde::{Deserialize, Serialize};
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::CheckName;

/// Runs of one check on one candidate: the first, its retry, the control run, and a few lost ones.
pub const RUNS_MAX: usize = 12;

/// A check of a merge candidate, with its runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Name in the configuration of the base.
    pub name: CheckName,
    /// The same tree passed the same checks before, so it is not run again.
    #[serde(default)]
    pub is_reused: bool,
    /// In the order they were requested; at most [`RUNS_MAX`].
    pub runs: Vec<CheckRun>,
}

/// One run of a check. Each run is one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The candidate, or the base as a control.
    pub on: CheckTarget,
    /// From 0, unique per check and candidate. Part of the task's idempotency key.
    pub number: u32,
    /// Stored before the task is enqueued.
    pub requested_at: Timestamp,
    /// None until the task is known to exist.
    pub task: Option<TaskId>,
    /// None while it waits or runs.
    #[serde(rename = "end")]
    pub outcome: Option<RunOutcome>,
}

/// The commit a check runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckTarget {
    /// The merge commit of head and base.
    Candidate,
    /// The base alone: a control run that tells a broken base from a broken change.
    Base,
}

/// Outcome of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum RunOutcome {
    /// The command exited with code 0.
    Passed {
        /// SHA-256 of all output, in hexadecimal.
        log_hash: String,
    },
    /// The command exited with another code or by a signal, or could not be executed.
    Failed {
        /// Exit status and the tail of the log.
        summary: String,
        /// SHA-256 of all output, in hexadecimal.
        log_hash: String,
    },
    /// The commit cannot be checked out, on any machine: the command did not run.
    Unusable {
        /// What git says.
        problem: String,
    },
    /// The time limit passed, or the run stopped renewing its lease.
    TimedOut,
    /// It was not completed, for reasons that are not the change's: a lost worker, a full disk.
    Lost {
        /// For people; not interpreted.
        reason: String,
    },
}

impl RunOutcome {
    /// Whether it counts against the commit that was tested.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Unusable { .. } | Self::TimedOut)
    }
}

/// The conclusion from all runs of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// No conclusion yet; says which runs are needed and not active.
    Open {
        /// A run on the candidate is needed.
        needs_candidate: bool,
        /// A control run on the base is needed.
        needs_base: bool,
    },
    /// It passed without a failed run.
    Passed,
    /// It failed, then passed on the same candidate.
    Flaky,
    /// It fails on the candidate and on the base alone.
    BrokenBase,
    /// It fails on the candidate and passes on the base.
    Culprit,
    /// The candidate cannot be checked out, and the base can.
    Unusable,
    /// [`RUNS_MAX`] runs without an answer: an operator has to look.
    GaveUp,
}

impl Check {
    /// A check without runs.
    pub fn new(name: CheckName) -> Self {
        Self { name, is_reused: false, runs: Vec::new() }
    }

    /// A failed run on the candidate is repeated, and run on the base as a control. The two outcomes tell a
    /// flaky check, a broken base and a culprit apart.
    pub fn conclusion(&self) -> Conclusion {
        if self.is_reused {
            return Conclusion::Passed;
        }
        let (candidate, base) = (self.count(CheckTarget::Candidate), self.count(CheckTarget::Base));
        if candidate.passed > 0 {
            return if candidate.failed > 0 { Conclusion::Flaky } else { Conclusion::Passed };
        }
        match (candidate.failed, base.passed, base.failed) {
            // Whether the check passes on the base does not matter: the base was checked out.
            (2.., passed, failed)
                if candidate.unusable == candidate.failed && passed + failed > base.unusable =>
            {
                return Conclusion::Unusable;
            }
            (2.., 1.., _) => return Conclusion::Culprit,
            (2.., 0, 1..) => return Conclusion::BrokenBase,
            _ => {}
        }
        if self.runs.len() >= RUNS_MAX && candidate.open == 0 && base.open == 0 {
            return Conclusion::GaveUp;
        }
        let has_room = self.runs.len() < RUNS_MAX;
        Conclusion::Open {
            needs_candidate: has_room && candidate.open == 0 && candidate.failed < 2,
            needs_base: has_room && candidate.failed > 0 && base.open + base.passed + base.failed == 0,
        }
    }

    /// The runs without an outcome.
    pub fn open_runs(&self) -> impl Iterator<Item = &CheckRun> {
        self.runs.iter().filter(|run| run.outcome.is_none())
    }

    fn count(&self, on: CheckTarget) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for run in self.runs.iter().filter(|run| run.on == on) {
            match &run.outcome {
                None => counts.open += 1,
                Some(RunOutcome::Passed { .. }) => counts.passed += 1,
                Some(RunOutcome::Lost { .. }) => {}
                Some(RunOutcome::Failed { .. } | RunOutcome::TimedOut) => counts.failed += 1,
                Some(RunOutcome::Unusable { .. }) => {
                    counts.failed += 1;
                    counts.unusable += 1;
                }
            }
        }
        counts
    }
}

#[derive(Default)]
struct OutcomeCounts {
    open: u32,
    passed: u32,
    /// All failures, including the next.
    failed: u32,
    unusable: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: char) -> Option<RunOutcome> {
        match code {
            '+' => Some(RunOutcome::Passed { log_hash: String::new() }),
            '-' => Some(RunOutcome::Failed { summary: String::new(), log_hash: String::new() }),
            't' => Some(RunOutcome::TimedOut),
            'u' => Some(RunOutcome::Unusable { problem: String::new() }),
            'x' => Some(RunOutcome::Lost { reason: String::new() }),
            _ => None,
        }
    }

    /// Runs on the candidate, then on the base; `.` has no outcome yet.
    fn conclusion(candidate: &str, base: &str) -> Conclusion {
        let runs = candidate.chars().map(|code| (CheckTarget::Candidate, code));
        let runs = runs.chain(base.chars().map(|code| (CheckTarget::Base, code)));
        let run = |(number, (on, code))| CheckRun {
            on,
            number,
            requested_at: Timestamp::MIN,
            task: None,
            outcome: outcome(code),
        };
        Check { name: CheckName("unit".into()), is_reused: false, runs: (0..).zip(runs).map(run).collect() }
            .conclusion()
    }

    #[test]
    fn runs_tell_a_flaky_check_a_broken_base_and_a_culprit_apart() {
        let open = |needs_candidate, needs_base| Conclusion::Open { needs_candidate, needs_base };
        let table = [
            ("", "", open(true, false)),
            (".", "", open(false, false)),
            ("+", "", Conclusion::Passed),
            ("x", "", open(true, false)),
            ("x+", "", Conclusion::Passed),
            ("-", "", open(true, true)),
            ("t", "", open(true, true)),
            ("-.", ".", open(false, false)),
            ("-+", ".", Conclusion::Flaky),
            ("-+", "-", Conclusion::Flaky),
            ("--", ".", open(false, false)),
            ("--", "x", open(false, true)),
            ("--", "+", Conclusion::Culprit),
            ("--", "-", Conclusion::BrokenBase),
            ("tt", "t", Conclusion::BrokenBase),
            ("-t", "+", Conclusion::Culprit),
            ("u", "", open(true, true)),
            ("uu", ".", open(false, false)),
            ("uu", "+", Conclusion::Unusable),
            ("uu", "-", Conclusion::Unusable),
            ("uu", "u", Conclusion::BrokenBase),
            ("u-", "+", Conclusion::Culprit),
            ("u-", "u", Conclusion::BrokenBase),
            ("u+", "", Conclusion::Flaky),
            ("xxxxxxxxxxxx", "", Conclusion::GaveUp),
        ];
        for (candidate, base, expected) in table {
            assert_eq!(conclusion(candidate, base), expected, "candidate {candidate:?}, base {base:?}");
        }
    }
}
