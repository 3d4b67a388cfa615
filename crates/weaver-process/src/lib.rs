//! Child processes that are not ours: confined to what they are given, limited, and never left behind.
//!
//! ```text
//! run.rs        spawn, output, stop, end: `run(spec, …)`; attempt.rs ties it to one attempt of a task
//! group.rs      the process and its descendants (tree.rs), ended together; output.rs cuts and keeps what they print
//! order.rs      what a guard is told to run: passed in a sealed-off file, never by argument or environment
//! guard/        the exec'd processes between us and the command: the guard outside, PID 1 inside
//! confine/      what a command may see and do: rules of the operator ─▶ Confinement ─▶ namespaces, Landlock, limits
//! program.rs    where a program is
//! secrecy.rs    this process is no book to read: PR_SET_DUMPABLE
//! ```

pub mod attempt;
pub mod confine;
mod group;
pub mod guard;
#[cfg(target_os = "linux")]
mod order;
mod output;
pub mod program;
mod run;
pub mod secrecy;
#[cfg(target_os = "linux")]
mod tree;

pub use confine::{Confinement, Confiner, Isolation, Rules};
pub use run::{Finished, OutputLimits, ProcessSpec, StartError, Stream, run};
