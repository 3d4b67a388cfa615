//! What opening a large store is doing, for people who wait for it.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// A step of opening, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Checking every page of a file that was closed cleanly.
    Verifying,
    /// Checking and mending a file that was not, in percent.
    Repairing {
        /// How much of it is done.
        percent: u8,
    },
    /// Reading the live tasks.
    Loading {
        /// So many are read.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// It is open.
    Done,
}

impl fmt::Display for Opening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verifying => write!(out, "checking the store"),
            Self::Repairing { percent } => {
                write!(out, "the store was not closed cleanly: checking it ({percent} %)")
            }
            Self::Loading { done, total } => write!(out, "reading live tasks: {done} of {total}"),
            Self::Done => write!(out, "open"),
        }
    }
}

/// Who is told.
pub type Listener = Arc<dyn Fn(Opening) + Send + Sync>;

/// Tells the terminal, on one line that is wiped in the end; tells nobody if there is no terminal.
pub(crate) fn to_terminal() -> Listener {
    if !std::io::stderr().is_terminal() {
        return Arc::new(|_| {});
    }
    Arc::new(|step| {
        let mut terminal = std::io::stderr().lock();
        // A terminal that went away is no reason to fail.
        let _ = match step {
            Opening::Done => write!(terminal, "\r\x1b[K"),
            step => write!(terminal, "\r\x1b[K{step} …"),
        };
        let _ = terminal.flush();
    })
}
