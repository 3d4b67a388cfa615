//! One prompt: runs the agent's command in the project's directory, with its output in the attempt's log.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use weaver_core::clock::Clock;
use weaver_core::name::TaskType;
use weaver_core::outcome::{Outcome, RESULT_MAX_BYTES};
use weaver_process::attempt::{self, StopSignal, ended_how};
use weaver_process::confine::{HOME_DEFAULT, Purpose, User};
use weaver_process::{Confinement, Finished, Isolation, OutputLimits, ProcessSpec};
use weaver_runtime::{Ctx, LogLimits, StopReason, TaskHandler};

use crate::PROMPT_TASK_TYPE;
use crate::command::{AgentCommand, PromptFile};
use crate::project::{Project, ProjectLock};
use crate::{environment, prompt};

/// The limit of the output's tail in a result.
const RESULT_TAIL_BYTES: usize = 32 * 1024;
/// The limit of the output's tail in an error message, which must fit a record.
const ERROR_TAIL_BYTES: usize = 8 * 1024;
/// A line must fit a journal entry.
const LINE_BYTES: usize = 4 * 1024;
/// How often the lock of a project is polled.
const LOCK_EVERY: Duration = Duration::from_millis(200);

/// The agent of a runner, the same for every prompt.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Looked up in `PATH` for every prompt.
    pub command: AgentCommand,
    /// Its working directory, which is locked while it runs.
    pub project: Project,
    /// Variables besides those of the task ([`environment::inherited`]).
    pub inherited: Vec<(OsString, OsString)>,
    /// The limit of its output in the attempt's log.
    pub log_max_bytes: usize,
    /// The time between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// Its confinement beyond the project.
    pub isolation: Isolation,
}

impl Agent {
    /// The agent's user; `None`: the runner's, if it is not root.
    pub(crate) fn user(&self) -> Option<User> {
        self.isolation.user_for(self.project.owner())
    }

    /// `None` if its rules say `unconfined`.
    pub(crate) fn confinement(&self) -> Result<Option<Confinement>, String> {
        let home =
            self.inherited.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let home = home.filter(|home| home.is_absolute()).unwrap_or_else(|| HOME_DEFAULT.into());
        let own = [self.project.root().to_owned()];
        self.isolation.confinement(&Purpose::Agent, &own, &home, self.user())
    }
}

/// The result of a prompt that succeeded; the same fields as of `exec`.
#[derive(Serialize)]
struct StoredResult<'a> {
    exit_code: i32,
    /// The tail of its standard output.
    output: &'a str,
    /// The size of its whole output, on both streams.
    output_bytes: u64,
}

/// The handler of `prompt` tasks.
#[derive(Debug)]
pub struct PromptHandler {
    task_type: TaskType,
    clock: Arc<dyn Clock>,
    agent: Agent,
}

impl PromptHandler {
    /// One agent runs all prompts, one at a time.
    pub fn new(agent: Agent, clock: Arc<dyn Clock>) -> Self {
        let task_type = TaskType::new(PROMPT_TASK_TYPE).expect("it is a name");
        Self { task_type, clock, agent }
    }

    /// Waits for the project's lock; `None` if the attempt is stopped before.
    async fn lock(&self, ctx: &Ctx) -> Option<Result<ProjectLock, String>> {
        let busy = || ctx.log("… waiting: the project is locked by another runner on this machine");
        let project = &self.agent.project;
        tokio::select! {
            biased;
            locked = project.lock(&*self.clock, LOCK_EVERY, busy) => {
                Some(locked.map_err(|error| format!("cannot lock the project {}: {error}", project.root().display())))
            }
            () = ctx.cancelled() => None,
        }
    }

    /// The process, and the prompt's file if the command uses one.
    fn prepare(&self, prompt: Bytes, ctx: &Ctx) -> Result<(ProcessSpec, Option<PromptFile>), String> {
        let Agent { command, project, inherited, log_max_bytes: _, kill_grace, isolation } = &self.agent;
        let mut confinement = self.agent.confinement()?;
        let path = inherited.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = command.find(project.root(), path)?;
        let file = match command.uses_file() {
            true => Some(
                PromptFile::write(&prompt, self.agent.user())
                    .map_err(|error| format!("cannot write the prompt's file: {error}"))?,
            ),
            false => None,
        };
        if let (Some(confinement), Some(file)) = (&mut confinement, &file) {
            confinement.read_only.push(file.path().to_owned());
        }
        let mut env = match confinement {
            Some(_) => environment::in_sandbox(inherited),
            None => inherited.clone(),
        };
        env.extend(environment::of_task(ctx));
        let spec = ProcessSpec {
            program,
            args: command.args(file.as_ref().map(PromptFile::path)),
            env,
            current_dir: project.root().to_owned(),
            beneath: None,
            stdin: file.is_none().then_some(prompt),
            grace: *kill_grace,
            limits: OutputLimits {
                // Limited by the attempt's log, which keeps head and tail.
                total_bytes: usize::MAX,
                line_bytes: LINE_BYTES,
                tail_bytes: RESULT_TAIL_BYTES,
            },
            guard: isolation.guard(),
            confinement,
        };
        Ok((spec, file))
    }

    fn outcome(&self, finished: &Finished<StopSignal>, ctx: &Ctx) -> Outcome {
        let name = &self.agent.command;
        match finished.stopped_by {
            Some(StopSignal::Timeout) => Outcome::TimedOut,
            // Its exit status after the signal does not matter, not even success: it did not finish.
            Some(StopSignal::FromWorker) => {
                let why = match ctx.stop_reason() {
                    Some(StopReason::Cancelled) => "the task was cancelled",
                    Some(StopReason::Shutdown) => "the runner was shut down",
                    Some(StopReason::LeaseLost) | None => "the runner could not keep its lease",
                };
                Outcome::failed(format!("`{name}` was stopped before it finished: {why}"))
            }
            None if finished.status.success() => succeeded(finished),
            None => {
                let how = ended_how(finished.status);
                match end_of(finished.tail.trim_end(), ERROR_TAIL_BYTES) {
                    "" => Outcome::failed(format!("`{name}` {how} without output")),
                    tail => Outcome::failed(format!("`{name}` {how}; last output:\n{tail}")),
                }
            }
        }
    }
}

#[async_trait]
impl TaskHandler for PromptHandler {
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, _payload: Bytes, ctx: Ctx) -> Outcome {
        let prompt = match prompt::text_of(&ctx.record().spec.envelope) {
            Ok(prompt) => prompt,
            Err(problem) => return Outcome::fatal(problem),
        };
        let _lock = match self.lock(&ctx).await {
            Some(Ok(lock)) => lock,
            Some(Err(problem)) => return Outcome::failed(problem),
            // Not started: the task is released, and its next lease starts it for the first time.
            None => return Outcome::Released,
        };
        let (spec, _file) = match self.prepare(prompt, &ctx) {
            Ok(prepared) => prepared,
            Err(problem) => return Outcome::failed(problem),
        };
        ctx.limit_log(LogLimits::total(self.agent.log_max_bytes));
        match attempt::run(&spec, &ctx, &*self.clock, |_, line| ctx.log_bytes(line)).await {
            Ok(finished) => self.outcome(&finished, &ctx),
            Err(error) => Outcome::failed(format!("cannot run `{}`: {error}", spec.program.display())),
        }
    }
}

/// Succeeded, with as much of the output's tail as fits a record in JSON.
fn succeeded(finished: &Finished<StopSignal>) -> Outcome {
    let output_bytes = finished.output_bytes;
    let mut output = finished.stdout_tail.as_str();
    loop {
        match serde_json::to_vec(&StoredResult { exit_code: 0, output, output_bytes }) {
            Ok(json) if json.len() <= RESULT_MAX_BYTES => {
                return Outcome::Succeeded { result: Some(json.into()) };
            }
            // Control characters take six bytes each.
            Ok(_) => output = end_of(output, output.len() / 2),
            Err(error) => return Outcome::fatal(format!("cannot encode the result as JSON: {error}")),
        }
    }
}

/// The last bytes of a text, starting at a character boundary.
fn end_of(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}
