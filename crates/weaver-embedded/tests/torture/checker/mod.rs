//! Checks what a store shows against what it acknowledged, life after life. Knows the lines and the contract,
//! and nothing of the store.
//!
//! The simulation's checkers do not fit here: they need a total order of all calls, with the record before
//! and after each. A killed process leaves only its lines: acknowledgements of concurrent calls in no
//! particular order, and unanswered requests.

mod documents;
mod gather;
mod journal;
mod model;
mod new_tasks;
mod tasks;

use std::fmt;

use crate::wire::Line;
use gather::Gathered;

/// A violated guarantee (`G1`, …) and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) guarantee: &'static str,
    pub(crate) what: String,
}

impl Violation {
    pub(crate) fn of(guarantee: &'static str, what: String) -> Self {
        Self { guarantee, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.guarantee, self.what)
    }
}

#[derive(Debug, Default)]
struct Findings(Vec<Violation>);

impl Findings {
    /// Records a violation unless `kept`.
    fn hold(&mut self, kept: bool, guarantee: &'static str, what: impl FnOnce() -> String) {
        if !kept {
            self.0.push(Violation::of(guarantee, what()));
        }
    }
}

/// Checks the lines of each life of a store; the last are those of the final inspection.
pub(crate) fn check(lives: &[Vec<Line>]) -> Vec<Violation> {
    let mut findings = Findings::default();
    let gathered = Gathered::from(lives, &mut findings);
    new_tasks::check(&gathered, lives, &mut findings);
    tasks::check(&gathered, &mut findings);
    documents::check(lives, &mut findings);
    journal::check(lives, &mut findings);
    findings.0
}
