//! Holds what a store showed to what it had acknowledged, life after life. Knows the lines and the contract,
//! and nothing of the store.
//!
//! The simulation's checkers do not fit here: they read one order of all calls, with the record before and
//! after each, as only a recorder inside the process can have it. What is left of a killed process is what it
//! said: acknowledgements of concurrent calls in no particular order, and questions that were never answered.

mod documents;
mod gather;
mod journal;
mod model;
mod new_tasks;
mod tasks;

use std::fmt;

use crate::wire::Line;
use gather::Gathered;

/// A broken promise.
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
    /// Notes a broken promise unless `kept`.
    fn hold(&mut self, kept: bool, guarantee: &'static str, what: impl FnOnce() -> String) {
        if !kept {
            self.0.push(Violation::of(guarantee, what()));
        }
    }
}

/// Checks what was said in each life of a store; the last is no child's, but what was found in the end.
pub(crate) fn check(lives: &[Vec<Line>]) -> Vec<Violation> {
    let mut findings = Findings::default();
    let gathered = Gathered::from(lives, &mut findings);
    new_tasks::check(&gathered, lives, &mut findings);
    tasks::check(&gathered, &mut findings);
    documents::check(lives, &mut findings);
    journal::check(lives, &mut findings);
    findings.0
}
