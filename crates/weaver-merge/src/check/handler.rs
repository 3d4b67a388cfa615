//! Runs a check: the files of the commit, with protected ones from the base, and the command of the base's
//! configuration, nothing else.

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
use weaver_process::attempt::{self, StopSignal, ended_how};
use weaver_process::confine::Purpose;
use weaver_process::{Confinement, Finished, Isolation, OutputLimits, ProcessSpec, StartError, program};
use weaver_runtime::{Ctx, TaskHandler};

use super::cache;
use super::checkout::check_out;
use super::workspace::Workspace;
use super::{CHECK_TASK_TYPE, CheckPayload, CheckResult};
use crate::config::{CheckConfig, MergeConfig};
use crate::domain::{CheckTarget, MergeQueue, Repository, RunOutcome};
use crate::engine::{MergeDocuments, read_config};
use crate::forge::{Forge, Forges};

/// How much of a check's output is in notifications.
const TAIL_MAX_BYTES: usize = 4 * 1024;

/// Settings of the check handler, from the operator's configuration.
#[derive(Debug, Clone)]
pub struct CheckOptions {
    /// Parent of the checks' workspaces. Those of dead processes are removed. It may be shared by processes
    /// and world-writable: the directory for temporary files will do.
    pub directory: PathBuf,
    /// `PATH` of checks, and where their programs are searched.
    pub path: OsString,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Confinement of checks: what they may access besides their own files.
    pub isolation: Isolation,
    /// Parent of the per-repository caches that checks may write to (`WEAVER_CACHE`). What one change leaves
    /// there, the next one's checks read. None: no cache.
    pub cache: Option<PathBuf>,
}

/// The handler of `weaver.check` tasks.
pub struct CheckHandler {
    task_type: TaskType,
    documents: MergeDocuments,
    forges: Arc<dyn Forges>,
    clock: Arc<dyn Clock>,
    options: CheckOptions,
}

impl CheckHandler {
    /// `store` must hold the merge queues: the handler reads a check's queue from it.
    pub fn new(
        store: Arc<dyn Store>,
        forges: Arc<dyn Forges>,
        clock: Arc<dyn Clock>,
        options: CheckOptions,
    ) -> Self {
        let task_type = TaskType::new(CHECK_TASK_TYPE).expect("a valid task type");
        Self { task_type, documents: MergeDocuments::new(store), forges, clock, options }
    }

    /// Finds the check to run; `Err` is the outcome of the task.
    async fn prepare(
        &self,
        payload: &CheckPayload,
        ctx: &Ctx,
    ) -> Result<(Arc<dyn Forge>, MergeQueue, CheckConfig, Vec<String>), Outcome> {
        let retryable = |error: &dyn std::fmt::Display| Outcome::failed(error.to_string());
        let namespace = &ctx.key().namespace;
        let stored =
            self.documents.load(namespace, &payload.queue).await.map_err(|error| retryable(&error))?;
        let Some(stored) = stored else {
            return Err(Outcome::fatal(format!("no such merge queue: `{}`", payload.queue)));
        };
        let forge = self.forges.open(&stored.queue.repository);
        let tip = forge.tip(&stored.queue.base_branch).await.map_err(|error| retryable(&error))?;
        // The author of the payload must not choose the configuration: it has to be one the base branch had.
        let is_of_base = match &tip {
            Some(tip) => forge.contains(tip, &payload.base).await.map_err(|error| retryable(&error))?,
            None => false,
        };
        if !is_of_base {
            return Err(Outcome::fatal(format!("{} is not on the base branch", payload.base)));
        }
        let config: MergeConfig = read_config(&*forge, &payload.base)
            .await
            .map_err(|error| retryable(&error))?
            .map_err(Outcome::fatal)?;
        let check = config.check(&payload.check).cloned();
        check.map(|check| (forge, stored.queue, check, config.protected)).ok_or_else(|| {
            Outcome::fatal(format!("the configuration on the base branch has no check `{}`", payload.check))
        })
    }

    fn process(
        &self,
        check: &CheckConfig,
        payload: &CheckPayload,
        workspace: &Workspace,
        sandbox: Sandbox,
    ) -> Result<ProcessSpec, String> {
        let files = workspace.files();
        let (name, args) = check.command.split_first().ok_or("the check has no command")?;
        let program = program::find(OsStr::new(name), &files, Some(&self.options.path))?;
        let text = |text: &str| OsString::from(text);
        let mut env = vec![
            (text("PATH"), self.options.path.clone()),
            (text("HOME"), workspace.home().into()),
            (text("TMPDIR"), workspace.home().into()),
            (text("LANG"), text("C.UTF-8")),
            (text("CI"), text("true")),
            (text("WEAVER_CHECK"), text(&check.name.0)),
            (text("WEAVER_COMMIT"), text(payload.commit.as_str())),
        ];
        env.extend(sandbox.cache.map(|cache| (text("WEAVER_CACHE"), cache.into())));
        Ok(ProcessSpec {
            program,
            args: args.iter().map(OsString::from).collect(),
            env,
            current_dir: files,
            beneath: None,
            stdin: None,
            grace: self.options.grace,
            limits: OutputLimits {
                // The attempt's log keeps head and tail; the hash covers all output.
                total_bytes: usize::MAX,
                tail_bytes: TAIL_MAX_BYTES,
                ..OutputLimits::default()
            },
            guard: self.options.isolation.guard(),
            confinement: sandbox.confinement,
        })
    }

    /// The confinement and cache of a check. An error is about this machine, never about the change.
    fn sandbox(&self, workspace: &Workspace, repository: &Repository) -> Result<Sandbox, String> {
        let isolation = &self.options.isolation;
        let user = isolation.user_for(None);
        let cache =
            match &self.options.cache {
                Some(parent) => {
                    let cache = cache::directory(parent, repository, user);
                    Some(cache.map_err(|error| {
                        format!("cannot prepare the cache in {}: {error}", parent.display())
                    })?)
                }
                None => None,
            };
        let own: Vec<PathBuf> =
            [workspace.files(), workspace.home()].into_iter().chain(cache.clone()).collect();
        let confinement = isolation.confinement(&Purpose::Check, &own, &workspace.home(), user)?;
        if let Some(user) = user {
            workspace
                .chown_to(user)
                .map_err(|error| format!("cannot change the owner of its files: {error}"))?;
        }
        Ok(Sandbox { confinement, cache })
    }

    async fn run(&self, payload: &CheckPayload, ctx: &Ctx) -> Result<Outcome, Outcome> {
        let (forge, queue, check, protected) = self.prepare(payload, ctx).await?;
        let name = format!("{}-{}", ctx.key().id, ctx.attempt());
        let workspace = Workspace::new(&self.options.directory, &name)
            .map_err(|error| Outcome::failed(format!("cannot create a workspace for the check: {error}")))?;
        if let Err(outcome) = check_out(&*forge, &queue, payload, &workspace.files()).await? {
            drop(workspace);
            return ended(outcome);
        }
        if !protected.is_empty() && payload.on == CheckTarget::Candidate {
            let restored = forge.restore(&payload.base, &protected, &workspace.files()).await;
            restored.map_err(|error| Outcome::failed(format!("checkout failed: {error}")))?;
        }
        let sandbox = self.sandbox(&workspace, &queue.repository);
        let sandbox = sandbox.map_err(|reason| {
            Outcome::failed(format!("check `{}` cannot be confined: {reason}", check.name))
        })?;
        let outcome = match self.process(&check, payload, &workspace, sandbox) {
            Ok(spec) => {
                let limit = check.timeout_s.map(Duration::from_secs);
                self.watch(&check, &spec, limit, ctx).await?
            }
            // The change itself may have removed the program: a failed check, not a broken machine.
            Err(problem) => {
                RunOutcome::Failed { summary: problem, log_hash: hex(Sha256::new().finalize().into()) }
            }
        };
        // Explicit: the files are removed before the outcome is reported.
        drop(workspace);
        ended(outcome)
    }

    async fn watch(
        &self,
        check: &CheckConfig,
        spec: &ProcessSpec,
        limit: Option<Duration>,
        ctx: &Ctx,
    ) -> Result<RunOutcome, Outcome> {
        let log = |_, line: &[u8]| ctx.log_bytes(line.strip_suffix(b"\n").unwrap_or(line));
        let run = attempt::run(spec, ctx, &*self.clock, log);
        let deadline = limit.map(|limit| self.clock.monotonic().saturating_add(limit));
        let finished = tokio::select! {
            biased;
            finished = run => finished,
            // Dropping the run kills all its processes.
            () = async {
                match deadline {
                    Some(deadline) => self.clock.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => return Ok(RunOutcome::TimedOut),
        };
        match finished {
            Ok(Finished { stopped_by: Some(StopSignal::Timeout), .. }) => Ok(RunOutcome::TimedOut),
            Ok(Finished { stopped_by: Some(StopSignal::FromWorker), .. }) => {
                Err(Outcome::failed(format!("check `{}` was stopped before it finished", check.name)))
            }
            Ok(finished) if finished.status.success() => {
                Ok(RunOutcome::Passed { log_hash: hex(finished.output_sha256) })
            }
            Ok(finished) => {
                let how = ended_how(finished.status);
                let summary = format!("`{}` {how}\n{}", check.name, finished.tail.trim_end());
                Ok(RunOutcome::Failed { summary, log_hash: hex(finished.output_sha256) })
            }
            // A program of the change's own that cannot be executed (a link out of the sandbox, a missing
            // interpreter) is the change's fault. Otherwise a change could make the machine look broken and
            // pause the queue.
            Err(error)
                if is_from_change(spec) && matches!(StartError::of(&error), Some(StartError::Program(_))) =>
            {
                Ok(RunOutcome::Failed {
                    summary: error.to_string(),
                    log_hash: hex(Sha256::new().finalize().into()),
                })
            }
            Err(error) => Err(Outcome::failed(format!("check `{}` cannot be run: {error}", check.name))),
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

struct Sandbox {
    confinement: Option<Confinement>,
    cache: Option<PathBuf>,
}

fn ended(outcome: RunOutcome) -> Result<Outcome, Outcome> {
    let result = serde_json::to_vec(&CheckResult { outcome })
        .map_err(|error| Outcome::fatal(format!("cannot encode the result as JSON: {error}")))?;
    Ok(Outcome::Succeeded { result: Some(result.into()) })
}

fn is_from_change(spec: &ProcessSpec) -> bool {
    spec.program.starts_with(&spec.current_dir)
}

fn hex(hash: [u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
