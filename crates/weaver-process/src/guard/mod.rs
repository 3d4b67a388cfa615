//! The processes between the server and a command: the command cannot outlive the server, escape cleanup, or
//! act with the server's rights.
//!
//! ```text
//! server ── guard ─────────────── init ── command ── …
//!   ▲        │ watches the server   │ PID 1 of the sandbox: mounts, Landlock, limits; reaps orphans
//!   └ pidfd ─┘ (and holds a lock    └ the kernel kills everything in the sandbox with it
//!               it inherited)
//! ```
//!
//! Both are this crate's host binary, started as `weaver-guard` and `weaver-guard-init` (see
//! [`run_if_asked`]); neither is for interactive use. The order is in a memory file (`order.rs`). Linux only.
//!
//! The guard creates the user and PID namespaces and stays outside the others. When the server ends, also by
//! SIGKILL, it ends all its descendants: SIGTERM, a grace period, SIGKILL. Its exit code is the command's
//! (128 + signal for a signal).
//!
//! `PR_SET_PDEATHSIG` instead of the pidfd would reach the first process only, and follows a thread, not a
//! process; it is used between init and the guard.

#[cfg(target_os = "linux")]
mod ends;
#[cfg(target_os = "linux")]
mod hold;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod outside;

/// The first argument that starts a binary as a guard.
pub const COMMAND: &str = "weaver-guard";
/// The first argument that starts it as PID 1 of a sandbox.
pub(crate) const INIT: &str = "weaver-guard-init";
/// The first argument that starts it as the holder of a user namespace.
pub(crate) const HOLD: &str = "weaver-guard-hold";

/// The running binary, also after its file was replaced by an update.
pub const OWN_BINARY: &str = "/proc/self/exe";

/// If this process was started as a guard, does its work and returns the exit code. Call it first in `main`,
/// before any thread is started.
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
        eprintln!("weaver: guards need Linux");
        return Some(1);
    }
    None
}
