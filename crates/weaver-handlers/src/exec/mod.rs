//! `exec`: a task that runs a command from the operator's allow-list.
//!
//! ```text
//! payload {command, values, env, dir} ─▶ policy: program, one argument per template, environment, directory
//!                                     ─▶ process::run
//! ```

mod policy;
mod template;
mod workdir;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::clock::Clock;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_process::attempt::{self, StopSignal, ended_how};
use weaver_process::{Finished, Isolation, ProcessSpec};
use weaver_runtime::{Ctx, TaskHandler};

use super::{EXEC_TASK_TYPE, PolicyError};
use policy::Checked;
pub use policy::{AllowedCommand, ExecPolicy};

/// The payload of an `exec` task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecTask {
    /// A key of [`ExecPolicy::commands`].
    pub command: String,
    /// Values of the placeholders in its arguments: strings, numbers, booleans.
    #[serde(default)]
    pub values: BTreeMap<String, serde_json::Value>,
    /// Environment variables; their names must be in [`ExecPolicy::task_env`].
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its working directory, relative to [`ExecPolicy::working_root`]. Default: that root.
    #[serde(default)]
    pub dir: Option<String>,
}

/// The result of a command that succeeded.
#[derive(Serialize)]
struct StoredResult<'a> {
    exit_code: i32,
    /// The tail of its output.
    output: &'a str,
    /// The size of its whole output.
    output_bytes: u64,
}

/// The handler of `exec` tasks.
#[derive(Debug)]
pub struct ExecHandler {
    task_type: TaskType,
    clock: Arc<dyn Clock>,
    policy: Checked,
}

impl ExecHandler {
    /// Fails if the policy is invalid. `isolation` has the confiner; the rules are the policy's.
    pub fn new(
        policy: ExecPolicy,
        isolation: &Isolation,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, PolicyError> {
        let task_type = TaskType::new(EXEC_TASK_TYPE).expect("it is a name");
        Ok(Self { task_type, clock, policy: Checked::new(policy, isolation)? })
    }

    async fn run(&self, name: &str, spec: &ProcessSpec, ctx: &Ctx) -> Outcome {
        ctx.limit_log(self.policy.log_limits);
        let log = |_, line: &[u8]| ctx.log(String::from_utf8_lossy(line));
        match attempt::run(spec, ctx, &*self.clock, log).await {
            Ok(Finished { stopped_by: Some(StopSignal::Timeout), .. }) => Outcome::TimedOut,
            // Its exit status after the signal does not matter, not even success: it did not finish.
            Ok(Finished { stopped_by: Some(StopSignal::FromWorker), .. }) => {
                Outcome::failed(format!("`{name}` was stopped before it finished"))
            }
            Ok(finished) => ended(name, &finished),
            // Retried: another worker may have the program that is missing here.
            Err(error) => {
                Outcome::failed(format!("cannot run `{name}` ({}): {error}", spec.program.display()))
            }
        }
    }
}

#[async_trait]
impl TaskHandler for ExecHandler {
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, _payload: Bytes, ctx: Ctx) -> Outcome {
        let task = match ctx.record().spec.envelope.decode::<ExecTask>() {
            Ok(task) => task,
            Err(invalid) => return Outcome::undecodable(&invalid),
        };
        match self.policy.prepare(&task, &about(&ctx)) {
            // `_dir` stays open while the command starts: its path goes through the descriptor.
            Ok((spec, _dir)) => self.run(&task.command, &spec, &ctx).await,
            Err(refused) => Outcome::fatal(refused),
        }
    }
}

/// The variables of every command.
fn about(ctx: &Ctx) -> Vec<(&'static str, String)> {
    vec![
        ("WEAVER_TASK_ID", ctx.record().shown_id()),
        ("WEAVER_NAMESPACE", ctx.key().namespace.to_string()),
        ("WEAVER_ATTEMPT", ctx.attempt().to_string()),
        ("WEAVER_FENCE", ctx.fence().to_string()),
    ]
}

fn ended<T>(name: &str, finished: &Finished<T>) -> Outcome {
    let Finished { status, tail, output_bytes, .. } = finished;
    if status.success() {
        let kept = StoredResult { exit_code: 0, output: tail, output_bytes: *output_bytes };
        return match serde_json::to_vec(&kept) {
            Ok(json) => Outcome::Succeeded { result: Some(json.into()) },
            Err(error) => Outcome::fatal(format!("cannot encode the result as JSON: {error}")),
        };
    }
    let how = ended_how(*status);
    match tail.trim_end() {
        "" => Outcome::failed(format!("`{name}` {how} without output")),
        tail => Outcome::failed(format!("`{name}` {how}; last output:\n{tail}")),
    }
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}
