//! One prompt: the agent's command in the project's directory, its output in the attempt's log, its end as
//! the task's.

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
use weaver_process::attempt::{self, Told, ended_how};
use weaver_process::confine::{HOME_DEFAULT, Purpose, User};
use weaver_process::{Confinement, Finished, Isolation, OutputLimits, ProcessSpec};
use weaver_runtime::{Ctx, LogLimits, StopReason, TaskHandler};

use crate::PROMPT_TASK_TYPE;
use crate::command::{AgentCommand, PromptFile};
use crate::project::{Project, ProjectLock};
use crate::{environment, prompt};

/// The most of the output's end that a result keeps.
const RESULT_TAIL_BYTES: usize = 32 * 1024;
/// The most of it that an error keeps: with what else it says, less than a record takes.
const ERROR_TAIL_BYTES: usize = 8 * 1024;
/// A line must fit an entry of the journal.
const LINE_BYTES: usize = 4 * 1024;
/// How often a project that another runner works on is looked at again.
const LOCK_EVERY: Duration = Duration::from_millis(200);

/// What is the same for every prompt.
#[derive(Debug, Clone)]
pub struct Agent {
    /// What is run.
    pub command: AgentCommand,
    /// Where.
    pub project: Project,
    /// The variables it gets besides those of the task.
    pub inherited: Vec<(OsString, OsString)>,
    /// How much of its output goes into the attempt's log.
    pub log_max_bytes: usize,
    /// How long it may take to end after SIGTERM.
    pub kill_grace: Duration,
    /// What it may see and do besides working on its project, and what enforces that.
    pub isolation: Isolation,
}

impl Agent {
    /// The user an agent in this project is: another one than the runner's only if that is root.
    pub(crate) fn user(&self) -> Option<User> {
        self.isolation.user_for(self.project.owner())
    }

    /// Its cell; `None` if the operator trusts it.
    ///
    /// # Errors
    /// Why there cannot be one, and what to do.
    pub(crate) fn confinement(&self) -> Result<Option<Confinement>, String> {
        let home =
            self.inherited.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let home = home.filter(|home| home.is_absolute()).unwrap_or_else(|| HOME_DEFAULT.into());
        let own = [self.project.root().to_owned()];
        self.isolation.confinement(&Purpose::Agent, &own, &home, self.user())
    }
}

/// What a record keeps of a prompt that was done: the same words as of a command (`exec`).
#[derive(Serialize)]
struct Kept<'a> {
    exit_code: i32,
    /// The end of its standard output.
    output: &'a str,
    /// How much it wrote, on both streams.
    output_bytes: u64,
}

/// Runs prompts.
#[derive(Debug)]
pub struct PromptHandler {
    task_type: TaskType,
    clock: Arc<dyn Clock>,
    agent: Agent,
}

impl PromptHandler {
    /// A handler that has this agent do the prompts.
    pub fn new(agent: Agent, clock: Arc<dyn Clock>) -> Self {
        let task_type = TaskType::new(PROMPT_TASK_TYPE).expect("it is a name");
        Self { task_type, clock, agent }
    }

    /// Waits for the project; `None` if the attempt is to stop before that.
    async fn lock(&self, ctx: &Ctx) -> Option<Result<ProjectLock, String>> {
        let busy = || ctx.log("… waiting: another runner of this machine works on the project");
        let project = &self.agent.project;
        tokio::select! {
            biased;
            locked = project.lock(&*self.clock, LOCK_EVERY, busy) => {
                Some(locked.map_err(|error| format!("the project {} cannot be locked: {error}", project.root().display())))
            }
            () = ctx.cancelled() => None,
        }
    }

    /// What to run, and the prompt's file if it is to have one.
    fn prepare(&self, prompt: Bytes, ctx: &Ctx) -> Result<(ProcessSpec, Option<PromptFile>), String> {
        let Agent { command, project, inherited, log_max_bytes: _, kill_grace, isolation } = &self.agent;
        let mut confinement = self.agent.confinement()?;
        let path = inherited.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = command.find(project.root(), path)?;
        let file = match command.uses_file() {
            true => Some(
                PromptFile::write(&prompt, self.agent.user())
                    .map_err(|error| format!("the prompt's file: {error}"))?,
            ),
            false => None,
        };
        if let (Some(confinement), Some(file)) = (&mut confinement, &file) {
            confinement.read_only.push(file.path().to_owned());
        }
        let mut env = match confinement {
            Some(_) => environment::in_a_cell(inherited),
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
                // The attempt's log keeps head and tail of it.
                total_bytes: usize::MAX,
                line_bytes: LINE_BYTES,
                tail_bytes: RESULT_TAIL_BYTES,
            },
            guard: isolation.guard(),
            confinement,
        };
        Ok((spec, file))
    }

    fn outcome(&self, finished: &Finished<Told>, ctx: &Ctx) -> Outcome {
        let name = &self.agent.command;
        match finished.told {
            Some(Told::TimeIsUp) => Outcome::TimedOut,
            // What it did with the signal does not matter, and least of all that it "succeeded": it did not
            // finish.
            Some(Told::ToStop) => {
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
                    "" => Outcome::failed(format!("`{name}` {how} and said nothing")),
                    tail => Outcome::failed(format!("`{name}` {how}; the end of its output:\n{tail}")),
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
            // Nothing was started: whoever has it next starts it for the first time.
            None => return Outcome::Released,
        };
        let (spec, _file) = match self.prepare(prompt, &ctx) {
            Ok(prepared) => prepared,
            Err(problem) => return Outcome::failed(problem),
        };
        ctx.limit_log(LogLimits::total(self.agent.log_max_bytes));
        match attempt::run(&spec, &ctx, &*self.clock, |_, line| ctx.log_bytes(line)).await {
            Ok(finished) => self.outcome(&finished, &ctx),
            Err(error) => Outcome::failed(format!("`{}` cannot be run: {error}", spec.program.display())),
        }
    }
}

/// Done, with the end of its output: as much of it as a record takes, however it is written as JSON.
fn succeeded(finished: &Finished<Told>) -> Outcome {
    let output_bytes = finished.output_bytes;
    let mut output = finished.stdout_tail.as_str();
    loop {
        match serde_json::to_vec(&Kept { exit_code: 0, output, output_bytes }) {
            Ok(json) if json.len() <= RESULT_MAX_BYTES => {
                return Outcome::Succeeded { result: Some(json.into()) };
            }
            // Control characters take six bytes each.
            Ok(_) => output = end_of(output, output.len() / 2),
            Err(error) => return Outcome::fatal(format!("its result cannot be written as JSON: {error}")),
        }
    }
}

/// The last bytes of a text, from a whole character on.
fn end_of(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}
