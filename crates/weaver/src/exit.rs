//! Exit codes, and failures with a message and the next step.

use std::fmt;

/// The exit code of the process. Scripts rely on these numbers: they do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Busy = 4,
    Damaged = 5,
    Refused = 6,
    Unsuccessful = 7,
}

impl Exit {
    pub(crate) const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Busy,
        Self::Damaged,
        Self::Refused,
        Self::Unsuccessful,
    ];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The `code` of an error in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Busy => "busy",
            Self::Damaged => "damaged",
            Self::Refused => "refused",
            Self::Unsuccessful => "unsuccessful",
        }
    }

    /// A line for `--help` and the guide.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Failed => "failed; the message says why and what to do",
            Self::Usage => "invalid command line or configuration",
            Self::NotFound => "not found",
            Self::Busy => "busy, unreachable or timed out; retry later",
            Self::Damaged => "a store is damaged",
            Self::Refused => "permission denied or refused by policy",
            Self::Unsuccessful => "the awaited task is dead or cancelled, or the merge entry did not land",
        }
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What went wrong, and where.
    pub(crate) message: String,
    /// What to do next, unless the message says so already.
    pub(crate) next: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), next: None }
    }

    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// An I/O error on a file.
    pub(crate) fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => Exit::Refused,
            _ => Exit::Failed,
        };
        let failure = Self::new(exit, format!("{}: {error}", path.display()));
        match exit {
            Exit::NotFound => failure.next("check the path"),
            Exit::Refused => failure.next("give this user permission, or use another path"),
            _ => failure.next("check the path and the free space on its disk (`weaver doctor`)"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_every_exit_code_with_its_meaning() {
        let guide = include_str!("../../../docs/guides/cli.md");
        for exit in Exit::ALL {
            let row = format!("| {} | `{}` | {} |", exit.code(), exit.name(), exit.meaning());
            assert!(guide.contains(&row), "docs/guides/cli.md lacks the row\n{row}");
        }
    }

    #[test]
    fn codes_are_numbered_without_gaps() {
        for (number, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(exit.code()), number);
        }
    }
}
