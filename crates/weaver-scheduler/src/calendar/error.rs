//! Errors in a schedule's text, with position and suggestion.

use std::fmt;
use std::ops::Range;

/// A schedule that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSchedule {
    /// The field: `schedule`, `tz`, `gap`, `fold`.
    pub field: &'static str,
    /// The part of it: `hour`, `day of week`, …
    pub part: Option<&'static str>,
    /// The text of the field.
    pub text: String,
    /// The range of bytes in `text` that is wrong.
    pub at: Range<usize>,
    /// What is wrong, without a final stop.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl BadSchedule {
    /// The text with the wrong bytes underlined, in two lines.
    pub fn pointer(&self) -> String {
        let width = |text: Option<&str>| text.map_or(0, |text| text.chars().count());
        let before = width(self.text.get(..self.at.start));
        let marked = width(self.text.get(self.at.clone())).max(1);
        format!("{}\n{}{}", self.text, " ".repeat(before), "^".repeat(marked))
    }

    pub(super) fn whole(
        field: &'static str,
        text: &str,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            field,
            part: None,
            text: text.to_owned(),
            at: 0..text.len(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for BadSchedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.part.unwrap_or(self.field))?;
        write!(out, ": {}; {}", self.problem, self.hint)
    }
}

impl std::error::Error for BadSchedule {}

/// The candidate most similar to a text, if any is similar enough.
pub(super) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = text.to_lowercase();
    candidates
        .map(|candidate| (strsim::jaro_winkler(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, candidate)| candidate)
}
