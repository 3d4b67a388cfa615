//! Progress of opening a large store.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// A step of opening, with its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Verifying every page of a file that was closed cleanly.
    Verifying,
    /// Verifying and repairing a file that was not closed cleanly.
    Repairing {
        /// Share done, 0 to 100.
        percent: u8,
    },
    /// Reading the live tasks.
    Loading {
        /// Tasks read so far; reported every 50,000.
        done: u64,
        /// Live tasks according to the stored counts.
        total: u64,
    },
    /// Opening succeeded; no further step follows.
    Done,
}

impl fmt::Display for Opening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verifying => write!(out, "verifying the store"),
            Self::Repairing { percent } => {
                write!(out, "the store was not closed cleanly: repairing it ({percent} %)")
            }
            Self::Loading { done, total } => write!(out, "loading live tasks: {done} of {total}"),
            Self::Done => write!(out, "open"),
        }
    }
}

/// Called with each step, on the thread that opens the store.
pub type Listener = Arc<dyn Fn(Opening) + Send + Sync>;

/// Shows progress on stderr, on one line that is cleared at the end; does nothing without a terminal.
pub(crate) fn to_terminal() -> Listener {
    if !std::io::stderr().is_terminal() {
        return Arc::new(|_| {});
    }
    Arc::new(|step| {
        let mut terminal = std::io::stderr().lock();
        // Opening does not fail because the terminal was closed.
        let _ = match step {
            Opening::Done => write!(terminal, "\r\x1b[K"),
            step => write!(terminal, "\r\x1b[K{step} …"),
        };
        let _ = terminal.flush();
    })
}
