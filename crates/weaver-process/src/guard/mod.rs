//! The processes between this one and a command, so that the command never outlives us, never hides from us
//! and never acts as us.
//!
//! ```text
//! server ── guard ─────────────── init ── command ── …
//!   ▲        │ watches the server   │ PID 1 of the cell: mounts, Landlock, limits; reaps; ends what the command left
//!   └ pidfd ─┘ (and holds a lock    └ the kernel ends everything in the cell with it
//!               it inherited)
//! ```
//!
//! Both are this crate's host binary, started as `weaver-guard` and `weaver-guard-init` (see
//! [`run_if_asked`]); neither is a command for people. What to run is in a file in memory (`order.rs`). The
//! guard makes the user and PID namespaces and stays outside the rest; when the server is gone, however it
//! went, it ends everything below itself: SIGTERM, a grace, SIGKILL. It ends with the command's code (128 and
//! the signal, as shells count). Only Linux has what it takes.
//!
//! `PR_SET_PDEATHSIG` instead of the pidfd would reach the first process only, and follows a thread, not a
//! process; here it is what ties init to the guard.

#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod hold;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod outside;

/// The word that makes a binary a guard.
pub const COMMAND: &str = "weaver-guard";
/// The word that makes it PID 1 of a cell.
pub(crate) const INIT: &str = "weaver-guard-init";
/// The word that makes it a process that holds a user namespace.
pub(crate) const HOLD: &str = "weaver-guard-hold";

/// This very binary, also after its file was replaced by an update.
pub const OWN_BINARY: &str = "/proc/self/exe";

/// Does a guard's work and returns the code to end with, if this process was started for that. To be called
/// first thing in `main`, before there are threads.
pub fn run_if_asked() -> Option<u8> {
    let word = std::env::args_os().nth(1)?;
    #[cfg(target_os = "linux")]
    {
        if word == COMMAND {
            return Some(outside::main());
        }
        if word == INIT {
            return Some(init::main());
        }
        if word == HOLD {
            return Some(hold::main());
        }
    }
    #[cfg(not(target_os = "linux"))]
    if word == COMMAND || word == INIT {
        eprintln!("weaver: there is no guard on this system");
        return Some(1);
    }
    None
}
