//! Findings of `weaver doctor`: a verdict, the detail, the next step.

use crate::exit::Failure;
use crate::output::Tone;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warn => Tone::Warning,
            Self::Fail => Tone::Bad,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) check: &'static str,
    pub(crate) detail: String,
    pub(crate) next: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, check, detail: detail.into(), next: None }
    }

    pub(crate) fn warn(check: &'static str, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, check, detail: detail.into(), next: Some(next.into()) }
    }

    pub(crate) fn fail(check: &'static str, detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, check, detail: detail.into(), next: Some(next.into()) }
    }

    pub(crate) fn of_failure(check: &'static str, failure: Failure) -> Self {
        Self { verdict: Verdict::Fail, check, detail: failure.message, next: failure.next }
    }
}
