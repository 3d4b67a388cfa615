//! The runner: prompts are tasks, and an agent's command line does them, one at a time, in a project's
//! directory.
//!
//! ```text
//! prompt.rs     what a prompt is as a task: run once, a session's in their order
//! runner.rs     a worker of one, with 120 s leases and a heartbeat at every poll
//! handler.rs    one prompt: command.rs, environment.rs, project.rs ─▶ weaver-process ─▶ the agent, confined
//! namespace.rs  which queue of prompts a project has, if nobody says
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
