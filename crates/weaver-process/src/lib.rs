//! Child processes that run untrusted commands: confinement, resource limits, and cleanup of all descendants.
//!
//! ```text
//! run.rs        spawn, output, stop, end: `run(spec, …)`; attempt.rs ties it to one attempt of a task
//! group.rs      the process and its descendants (tree.rs), ended together; output.rs limits their output
//! order.rs      the guard's order: passed in a memory file, never by argument or environment
//! guard/        the exec'd processes between us and the command: the guard outside, PID 1 inside
//! confine/      the operator's rules ─▶ Confinement ─▶ namespaces, Landlock, resource limits
//! program.rs    finding a program in PATH
//! secrecy.rs    no inspection by processes of the same user: PR_SET_DUMPABLE
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
