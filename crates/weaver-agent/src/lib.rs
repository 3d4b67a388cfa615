//! The agent runner: prompts are tasks, and an agent's command line runs them, one at a time, in a project's
//! directory.
//!
//! ```text
//! prompt.rs     prompts as tasks: run once, in order within a session
//! runner.rs     a worker with concurrency 1, 120 s leases and a heartbeat at every poll
//! handler.rs    one prompt: command.rs, environment.rs, project.rs ─▶ weaver-process ─▶ the agent, confined
//! namespace.rs  the default namespace of a project
//! ```

pub mod command;
pub mod environment;
pub mod handler;
pub mod namespace;
pub mod profile;
pub mod project;
pub mod prompt;
pub mod runner;

pub use profile::Profile;
pub use prompt::PROMPT_TASK_TYPE;
pub use runner::{RunnerError, RunnerOptions, runner};
