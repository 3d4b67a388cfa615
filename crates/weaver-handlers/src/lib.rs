//! Built-in handlers: [`http`](HttpHandler) calls a URL, [`exec`](ExecHandler) runs a command from the
//! operator's allow-list.
//!
//! Both limit time and output, and both treat payloads as untrusted: the producer writes the payload, the
//! operator's policy decides what is allowed.

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

/// The task type of [`HttpHandler`].
pub const HTTP_TASK_TYPE: &str = "http";
/// The task type of [`ExecHandler`].
pub const EXEC_TASK_TYPE: &str = "exec";

/// The operator's policies for the built-in handlers: `[handlers]` in `weaver.toml`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuiltIn {
    /// The policy of `http`, which is always registered.
    pub http: HttpPolicy,
    /// The policy of `exec`; without it the handler is not registered.
    pub exec: Option<ExecPolicy>,
}

/// An invalid policy of the operator.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct PolicyError {
    /// The configuration key, such as `exec.working_root`.
    pub key: String,
    /// Why it is invalid.
    pub problem: String,
}

impl PolicyError {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

/// Adds the built-in handlers to a registry. `exec` is added only with a policy; otherwise its tasks are left
/// to workers that have one. `isolation` confines its commands.
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
