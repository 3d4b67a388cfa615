//! One checker per guarantee. Each reads the history from the start and is independent of the code under
//! test.

mod g1;
mod g10;
mod g11;
mod g2;
mod g3;
mod g4;
mod g5;
mod g6;
mod g7;
mod g8;
mod g9;
mod runs;
mod shadow;

use std::fmt;

use weaver_core::time::Timestamp;

use crate::simulation::clock::START;
use crate::simulation::history::History;

/// A violated guarantee, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name, `G1` to `G11`.
    pub guarantee: &'static str,
    /// Virtual time of the event.
    pub at: Timestamp,
    /// The event and the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since(START);
        write!(out, "{} at {}.{:06}: {}", self.guarantee, at.as_secs(), at.subsec_micros(), self.what)
    }
}

/// Violations found by one checker.
#[derive(Debug)]
struct Findings {
    guarantee: &'static str,
    list: Vec<Violation>,
}

impl Findings {
    fn of(guarantee: &'static str) -> Self {
        Self { guarantee, list: Vec::new() }
    }

    /// Records a violation unless `kept`.
    fn hold(&mut self, kept: bool, at: Timestamp, what: impl FnOnce() -> String) {
        if !kept {
            self.list.push(Violation { guarantee: self.guarantee, at, what: what() });
        }
    }
}

/// Checks a history against every guarantee.
pub fn check(history: &History) -> Vec<Violation> {
    let checkers = [
        g1::check,
        g2::check,
        g3::check,
        g4::check,
        g5::check,
        g6::check,
        g7::check,
        g8::check,
        g9::check,
        g10::check,
        g11::check,
    ];
    checkers.iter().flat_map(|checker| checker(history).list).collect()
}
