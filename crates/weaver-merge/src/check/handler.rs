//! Runs a check: the files of the commit, the command of the base's configuration, nothing else.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use weaver_core::clock::Clock;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::ports::Store;
use weaver_process::attempt::{self, Told, ended_how};
use weaver_process::confine::Purpose;
use weaver_process::{Confinement, Finished, Isolation, OutputLimits, ProcessSpec, StartError, program};
use weaver_runtime::{Ctx, TaskHandler};

use super::cache;
use super::place::Place;
use super::{CHECK_TASK_TYPE, CheckPayload, CheckResult};
use crate::config::{CheckConfig, MergeConfig};
use crate::domain::{Repository, RunEnd};
use crate::engine::{Ledger, read_config};
use crate::forge::{Forge, Forges};

/// How much of a check's output is in a message to people.
const TAIL_MAX_BYTES: usize = 4 * 1024;

/// Where and how checks run.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Directories of checks are made here, and those of processes that died are removed. Processes may share
    /// it, and everybody may be able to write to it: the directory for temporary files will do.
    pub directory: PathBuf,
    /// Where programs are looked for; the `PATH` of checks.
    pub path: OsString,
    /// How long a command may take to end after SIGTERM.
    pub grace: Duration,
    /// What checks may see and do besides their own files, and what enforces that.
    pub isolation: Isolation,
    /// Where each repository has a directory that its checks share and may write to (`WEAVER_CACHE`); what
    /// one change leaves there, the next one's checks read. None: every check begins with nothing.
    pub cache: Option<PathBuf>,
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
    ) -> Result<(Arc<dyn Forge>, Repository, CheckConfig), Outcome> {
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
            .map(|check| (forge, stored.queue.repository, check))
            .ok_or_else(|| Outcome::fatal(format!("the base has no check `{}`", payload.check)))
    }

    fn process(
        &self,
        check: &CheckConfig,
        payload: &CheckPayload,
        place: &Place,
        cell: Cell,
    ) -> Result<ProcessSpec, String> {
        let files = place.files();
        let (name, args) = check.command.split_first().ok_or("the check has no command")?;
        let program = program::find(OsStr::new(name), &files, Some(&self.options.path))?;
        let text = |text: &str| OsString::from(text);
        let mut env = vec![
            (text("PATH"), self.options.path.clone()),
            (text("HOME"), place.home().into()),
            (text("TMPDIR"), place.home().into()),
            (text("LANG"), text("C.UTF-8")),
            (text("CI"), text("true")),
            (text("WEAVER_CHECK"), text(&check.name.0)),
            (text("WEAVER_COMMIT"), text(payload.commit.as_str())),
        ];
        env.extend(cell.cache.map(|cache| (text("WEAVER_CACHE"), cache.into())));
        Ok(ProcessSpec {
            program,
            args: args.iter().map(OsString::from).collect(),
            env,
            current_dir: files,
            beneath: None,
            stdin: None,
            grace: self.options.grace,
            limits: OutputLimits {
                // The attempt's log keeps head and tail of it; the hash is of all.
                total_bytes: usize::MAX,
                tail_bytes: TAIL_MAX_BYTES,
                ..OutputLimits::default()
            },
            guard: self.options.isolation.guard(),
            confinement: cell.confinement,
        })
    }

    /// Where and as whom the check runs. An error is about this machine and its configuration, never about
    /// the change.
    fn cell(&self, place: &Place, repository: &Repository) -> Result<Cell, String> {
        let isolation = &self.options.isolation;
        let user = isolation.user_for(None);
        let cache = match &self.options.cache {
            Some(parent) => {
                let cache = cache::directory(parent, repository, user);
                Some(cache.map_err(|error| format!("the cache in {}: {error}", parent.display()))?)
            }
            None => None,
        };
        let own: Vec<PathBuf> = [place.files(), place.home()].into_iter().chain(cache.clone()).collect();
        let confinement = isolation.confinement(&Purpose::Check, &own, &place.home(), user)?;
        if let Some(user) = user {
            place
                .hand_over(user)
                .map_err(|error| format!("its files cannot be given to another user: {error}"))?;
        }
        Ok(Cell { confinement, cache })
    }

    async fn run(&self, payload: &CheckPayload, ctx: &Ctx) -> Result<Outcome, Outcome> {
        let (forge, repository, check) = self.prepare(payload, ctx).await?;
        let name = format!("{}-{}", ctx.key().id, ctx.attempt());
        let place = Place::new(&self.options.directory, &name)
            .map_err(|error| Outcome::failed(format!("no place for the check's files: {error}")))?;
        let written = forge.check_out(&payload.commit, &place.files()).await;
        written.map_err(|error| Outcome::failed(format!("the files cannot be written: {error}")))?;
        let cell = self.cell(&place, &repository);
        let cell =
            cell.map_err(|reason| Outcome::failed(format!("`{}` cannot be confined: {reason}", check.name)))?;
        let end = match self.process(&check, payload, &place, cell) {
            Ok(spec) => {
                let limit = check.timeout_s.map(Duration::from_secs);
                self.watch(&check, &spec, limit, ctx).await?
            }
            // The change itself may have removed its program: that is a red check, not a broken machine.
            Err(problem) => {
                RunEnd::Failed { summary: problem, log_hash: hex(Sha256::new().finalize().into()) }
            }
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
        let log = |_, line: &[u8]| ctx.log_bytes(line.strip_suffix(b"\n").unwrap_or(line));
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
            Ok(finished) if finished.status.success() => {
                Ok(RunEnd::Passed { log_hash: hex(finished.output_sha256) })
            }
            Ok(finished) => {
                let how = ended_how(finished.status);
                let summary = format!("`{}` {how}\n{}", check.name, finished.tail.trim_end());
                Ok(RunEnd::Failed { summary, log_hash: hex(finished.output_sha256) })
            }
            // A program of the change's own that is no program (a link out of the cell, an interpreter that
            // is not there) is the change's fault: else it could make the machine look broken, and the queue
            // pause.
            Err(error)
                if is_its_own(spec) && matches!(StartError::of(&error), Some(StartError::Program(_))) =>
            {
                Ok(RunEnd::Failed {
                    summary: error.to_string(),
                    log_hash: hex(Sha256::new().finalize().into()),
                })
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
            Err(invalid) => Outcome::undecodable(&invalid),
        }
    }
}

/// What one check is given.
struct Cell {
    confinement: Option<Confinement>,
    cache: Option<PathBuf>,
}

fn is_its_own(spec: &ProcessSpec) -> bool {
    spec.program.starts_with(&spec.current_dir)
}

fn hex(hash: [u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
