//! Runs a check: the files of the commit, the command of the base's configuration, nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use weaver_agent::attempt::{self, Told, ended_how};
use weaver_agent::command::AgentCommand;
use weaver_agent::process::{Finished, OutputLimits, ProcessSpec};
use weaver_core::clock::Clock;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::ports::Store;
use weaver_runtime::{Ctx, TaskHandler};

use super::place::Place;
use super::{CHECK_TASK_TYPE, CheckPayload, CheckResult};
use crate::config::{CheckConfig, MergeConfig};
use crate::domain::RunEnd;
use crate::engine::{Ledger, read_config};
use crate::forge::{Forge, Forges};

/// How much of a check's output is in a message to people.
const TAIL_MAX_BYTES: usize = 4 * 1024;

/// Where and how checks run.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Directories of checks are made here, and those of processes that died are removed. Processes may share it, and
    /// everybody may be able to write to it: the directory for temporary files will do.
    pub directory: PathBuf,
    /// Where programs are looked for; the `PATH` of checks.
    pub path: OsString,
    /// How long a command may take to end after SIGTERM.
    pub grace: Duration,
    /// The program whose guard ends a check if this process dies (see `weaver_agent::guard`).
    pub guard: Option<PathBuf>,
}

/// Runs `weaver.check` tasks.
pub struct CheckHandler {
    task_type: TaskType,
    ledger: Ledger,
    forges: Arc<dyn Forges>,
    clock: Arc<dyn Clock>,
    options: CheckOptions,
}

impl CheckHandler {
    /// A handler over the store that has the queues.
    pub fn new(
        store: Arc<dyn Store>,
        forges: Arc<dyn Forges>,
        clock: Arc<dyn Clock>,
        options: CheckOptions,
    ) -> Self {
        let task_type = TaskType::new(CHECK_TASK_TYPE).expect("it is a name");
        Self { task_type, ledger: Ledger::new(store), forges, clock, options }
    }

    /// What to run, or why that cannot be known. Says `Err(outcome)` for the task.
    async fn prepare(
        &self,
        payload: &CheckPayload,
        ctx: &Ctx,
    ) -> Result<(Arc<dyn Forge>, CheckConfig), Outcome> {
        let again = |error: &dyn std::fmt::Display| Outcome::failed(error.to_string());
        let namespace = &ctx.key().namespace;
        let stored = self.ledger.load(namespace, &payload.queue).await.map_err(|error| again(&error))?;
        let Some(stored) = stored else {
            return Err(Outcome::fatal(format!("there is no merge queue `{}`", payload.queue)));
        };
        let forge = self.forges.open(&stored.queue.repository);
        let tip = forge.tip(&stored.queue.base_branch).await.map_err(|error| again(&error))?;
        // Whoever wrote the payload must not choose the configuration: it has to be one the base branch had.
        let is_of_base = match &tip {
            Some(tip) => forge.contains(tip, &payload.base).await.map_err(|error| again(&error))?,
            None => false,
        };
        if !is_of_base {
            return Err(Outcome::fatal(format!("{} is not on the base branch", payload.base)));
        }
        let config: MergeConfig = read_config(&*forge, &payload.base)
            .await
            .map_err(|error| again(&error))?
            .map_err(Outcome::fatal)?;
        let check = config.check(&payload.check).cloned();
        check
            .map(|check| (forge, check))
            .ok_or_else(|| Outcome::fatal(format!("the base has no check `{}`", payload.check)))
    }

    fn process(
        &self,
        check: &CheckConfig,
        payload: &CheckPayload,
        place: &Place,
    ) -> Result<ProcessSpec, String> {
        let files = place.files();
        let command = AgentCommand::new(&check.command).map_err(|error| error.to_string())?;
        let program = command.find(&files, Some(&self.options.path))?;
        let text = |text: &str| OsString::from(text);
        let env = vec![
            (text("PATH"), self.options.path.clone()),
            (text("HOME"), place.home().into()),
            (text("TMPDIR"), place.home().into()),
            (text("LANG"), text("C.UTF-8")),
            (text("CI"), text("true")),
            (text("WEAVER_CHECK"), text(&check.name.0)),
            (text("WEAVER_COMMIT"), text(payload.commit.as_str())),
        ];
        Ok(ProcessSpec {
            program,
            args: command.args(None),
            env,
            current_dir: files,
            stdin: None,
            grace: self.options.grace,
            limits: OutputLimits {
                // The attempt's log keeps head and tail of it; the hash is of all.
                total_bytes: usize::MAX,
                tail_bytes: TAIL_MAX_BYTES,
                ..OutputLimits::default()
            },
            guard: self.options.guard.clone(),
        })
    }

    async fn run(&self, payload: &CheckPayload, ctx: &Ctx) -> Result<Outcome, Outcome> {
        let (forge, check) = self.prepare(payload, ctx).await?;
        let name = format!("{}-{}", ctx.key().id, ctx.attempt());
        let place = Place::new(&self.options.directory, &name)
            .map_err(|error| Outcome::failed(format!("no place for the check's files: {error}")))?;
        let written = forge.check_out(&payload.commit, &place.files()).await;
        written.map_err(|error| Outcome::failed(format!("the files cannot be written: {error}")))?;
        let end = match self.process(&check, payload, &place) {
            Ok(spec) => {
                let limit = check.timeout_s.map(Duration::from_secs);
                self.watch(&check, &spec, limit, ctx).await?
            }
            // The change itself may have removed its program: that is a red check, not a broken machine.
            Err(problem) => RunEnd::Failed { summary: problem, log_hash: hex(Sha256::new()) },
        };
        let result = serde_json::to_vec(&CheckResult { end })
            .map_err(|error| Outcome::fatal(format!("its result cannot be written as JSON: {error}")))?;
        // Said outright: the files are gone before the end is reported.
        drop(place);
        Ok(Outcome::Succeeded { result: Some(result.into()) })
    }

    async fn watch(
        &self,
        check: &CheckConfig,
        spec: &ProcessSpec,
        limit: Option<Duration>,
        ctx: &Ctx,
    ) -> Result<RunEnd, Outcome> {
        let mut hash = Sha256::new();
        let log = |_, line: &[u8]| {
            hash.update(line);
            ctx.log_bytes(line.strip_suffix(b"\n").unwrap_or(line));
        };
        let run = attempt::run(spec, ctx, &*self.clock, log);
        let deadline = limit.map(|limit| self.clock.monotonic().saturating_add(limit));
        let finished = tokio::select! {
            biased;
            finished = run => finished,
            // Dropped, the run kills everything that belongs to it.
            () = async {
                match deadline {
                    Some(deadline) => self.clock.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => return Ok(RunEnd::TimedOut),
        };
        match finished {
            Ok(Finished { told: Some(Told::TimeIsUp), .. }) => Ok(RunEnd::TimedOut),
            Ok(Finished { told: Some(Told::ToStop), .. }) => {
                Err(Outcome::failed(format!("`{}` was stopped before it finished", check.name)))
            }
            Ok(finished) if finished.status.success() => Ok(RunEnd::Passed { log_hash: hex(hash) }),
            Ok(finished) => {
                let how = ended_how(finished.status);
                let summary = format!("`{}` {how}\n{}", check.name, finished.tail.trim_end());
                Ok(RunEnd::Failed { summary, log_hash: hex(hash) })
            }
            Err(error) => Err(Outcome::failed(format!("`{}` cannot be run: {error}", check.name))),
        }
    }
}

#[async_trait]
impl TaskHandler for CheckHandler {
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, _payload: Bytes, ctx: Ctx) -> Outcome {
        match ctx.record().spec.envelope.decode::<CheckPayload>() {
            Ok(payload) => self.run(&payload, &ctx).await.unwrap_or_else(|outcome| outcome),
            Err(invalid) => Outcome::fatal(invalid.to_string()),
        }
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
