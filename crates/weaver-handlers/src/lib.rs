//! Handlers that need no program of yours: [`http`](HttpHandler) calls a URL, [`exec`](ExecHandler) runs a
//! command that the operator allowed.
//!
//! Both are bounded in time and output, and both treat what a task asks for as hostile: whoever may enqueue
//! decides what is in the payload, the operator's policy decides what may be done with it.

pub mod address;
pub mod exec;
pub mod http;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weaver_core::clock::Clock;
use weaver_process::Isolation;
use weaver_runtime::Registry;

pub use exec::{AllowedCommand, ExecHandler, ExecPolicy};
pub use http::{HttpHandler, HttpPolicy};

/// The type of the tasks that call a URL.
pub const HTTP_TASK_TYPE: &str = "http";
/// The type of the tasks that run a command.
pub const EXEC_TASK_TYPE: &str = "exec";

/// What the operator decided about the built-in handlers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltIn {
    /// For `http`.
    pub http: HttpPolicy,
    /// For `exec`; without it there is no such handler.
    pub exec: Option<ExecPolicy>,
}

/// Why the built-in handlers cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct PolicyError {
    /// Which part of the policy, as it is written there.
    pub place: String,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl PolicyError {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}

/// Adds the built-in handlers to a registry. `exec` is added only if there is a policy for it: its tasks are
/// then left to workers that have one. `isolation` is what confines its commands.
pub fn register(
    registry: Registry,
    built_in: BuiltIn,
    isolation: &Isolation,
    clock: &Arc<dyn Clock>,
) -> Result<Registry, PolicyError> {
    let registry = registry.handler(HttpHandler::new(built_in.http, Arc::clone(clock))?);
    match built_in.exec {
        Some(policy) => Ok(registry.handler(ExecHandler::new(policy, isolation, Arc::clone(clock))?)),
        None => Ok(registry),
    }
}
