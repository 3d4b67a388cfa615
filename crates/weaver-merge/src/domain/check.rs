//! The checks of a candidate: which runs there were, how they ended, and what follows from that.

use serde::{Deserialize, Serialize};
use weaver_core::id::TaskId;
use weaver_core::time::Timestamp;

use super::CheckName;

/// The most runs one check of one candidate may have: the first, its retry, the control, and a few that got
/// lost.
pub const RUNS_MAX: usize = 12;

/// A check of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name in the configuration.
    pub name: CheckName,
    /// Passed by the same tree before, and not run again.
    #[serde(default)]
    pub is_reused: bool,
    /// Its runs, in the order they were asked for.
    pub runs: Vec<CheckRun>,
}

/// One run of a check, which is a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// What it runs on.
    pub on: On,
    /// Distinguishes runs of one check on one candidate, so that asking twice for one makes one task.
    pub number: u32,
    /// When it was asked for: stored before the task exists.
    pub requested_at: Timestamp,
    /// The task, once it is known to exist.
    pub task: Option<TaskId>,
    /// How it ended.
    pub end: Option<RunEnd>,
}

/// What a check runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// The candidate.
    Candidate,
    /// The base alone: a control run, to tell whose fault a failure is.
    Base,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum RunEnd {
    /// The command ended with 0.
    Passed {
        /// The hash of its log.
        log_hash: String,
    },
    /// The command ended otherwise.
    Failed {
        /// How it ended, and the end of its log.
        summary: String,
        /// The hash of its log.
        log_hash: String,
    },
    /// It did not end in time, or nothing was heard of it.
    TimedOut,
    /// It did not run to its end for reasons of ours: a lost worker, no room for its files. Says nothing
    /// about the change.
    Lost {
        /// What happened.
        reason: String,
    },
}

impl RunEnd {
    /// Whether it says that something is wrong with what was tested.
    pub fn is_red(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::TimedOut)
    }
}

/// What the runs of a check say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing yet: these runs are needed and not under way.
    Open {
        /// A run on the candidate.
        needs_candidate: bool,
        /// A run on the base.
        needs_base: bool,
    },
    /// It passed.
    Passed,
    /// It failed, and passed when repeated.
    Flaky,
    /// It fails on the candidate and on the base alone.
    BrokenBase,
    /// It fails on the candidate and passes on the base.
    Culprit,
    /// It got lost so often that it will not be tried again before somebody looks.
    GaveUp,
}

impl Check {
    /// A check that has not run.
    pub fn new(name: CheckName) -> Self {
        Self { name, is_reused: false, runs: Vec::new() }
    }

    /// What the runs say. A red run on the candidate is repeated, and run on the base: the two answers tell a
    /// flaky check, a broken base and a culprit apart.
    pub fn judge(&self) -> Judgement {
        if self.is_reused {
            return Judgement::Passed;
        }
        let (candidate, base) = (self.ends(On::Candidate), self.ends(On::Base));
        if candidate.passed > 0 {
            return if candidate.red > 0 { Judgement::Flaky } else { Judgement::Passed };
        }
        match (candidate.red, base.passed, base.red) {
            (2.., 1.., _) => return Judgement::Culprit,
            (2.., 0, 1..) => return Judgement::BrokenBase,
            _ => {}
        }
        if self.runs.len() >= RUNS_MAX && candidate.open == 0 && base.open == 0 {
            return Judgement::GaveUp;
        }
        let has_room = self.runs.len() < RUNS_MAX;
        Judgement::Open {
            needs_candidate: has_room && candidate.open == 0 && candidate.red < 2,
            needs_base: has_room && candidate.red > 0 && base.open + base.passed + base.red == 0,
        }
    }

    /// The runs that have not ended.
    pub fn open_runs(&self) -> impl Iterator<Item = &CheckRun> {
        self.runs.iter().filter(|run| run.end.is_none())
    }

    fn ends(&self, on: On) -> Ends {
        let mut ends = Ends::default();
        for run in self.runs.iter().filter(|run| run.on == on) {
            match &run.end {
                None => ends.open += 1,
                Some(RunEnd::Passed { .. }) => ends.passed += 1,
                Some(RunEnd::Lost { .. }) => {}
                Some(RunEnd::Failed { .. } | RunEnd::TimedOut) => ends.red += 1,
            }
        }
        ends
    }
}

#[derive(Default)]
struct Ends {
    open: u32,
    passed: u32,
    red: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(code: char) -> Option<RunEnd> {
        match code {
            '+' => Some(RunEnd::Passed { log_hash: String::new() }),
            '-' => Some(RunEnd::Failed { summary: String::new(), log_hash: String::new() }),
            't' => Some(RunEnd::TimedOut),
            'x' => Some(RunEnd::Lost { reason: String::new() }),
            _ => None,
        }
    }

    /// Runs on the candidate, then on the base; `.` has not ended.
    fn judged(candidate: &str, base: &str) -> Judgement {
        let runs = candidate.chars().map(|code| (On::Candidate, code));
        let runs = runs.chain(base.chars().map(|code| (On::Base, code)));
        let run = |(number, (on, code))| CheckRun {
            on,
            number,
            requested_at: Timestamp::MIN,
            task: None,
            end: end(code),
        };
        Check { name: CheckName("unit".into()), is_reused: false, runs: (0..).zip(runs).map(run).collect() }
            .judge()
    }

    #[test]
    fn the_runs_of_a_check_tell_a_flaky_one_a_broken_base_and_a_culprit_apart() {
        let open = |needs_candidate, needs_base| Judgement::Open { needs_candidate, needs_base };
        let table = [
            ("", "", open(true, false)),
            (".", "", open(false, false)),
            ("+", "", Judgement::Passed),
            ("x", "", open(true, false)),
            ("x+", "", Judgement::Passed),
            ("-", "", open(true, true)),
            ("t", "", open(true, true)),
            ("-.", ".", open(false, false)),
            ("-+", ".", Judgement::Flaky),
            ("-+", "-", Judgement::Flaky),
            ("--", ".", open(false, false)),
            ("--", "x", open(false, true)),
            ("--", "+", Judgement::Culprit),
            ("--", "-", Judgement::BrokenBase),
            ("tt", "t", Judgement::BrokenBase),
            ("-t", "+", Judgement::Culprit),
            ("xxxxxxxxxxxx", "", Judgement::GaveUp),
        ];
        for (candidate, base, expected) in table {
            assert_eq!(judged(candidate, base), expected, "candidate {candidate:?}, base {base:?}");
        }
    }
}
