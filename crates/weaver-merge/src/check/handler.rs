//! Runs a check: the files of the commit, with protected ones from the base, and the command of the base's
//! configuration, nothing else.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use weaver_core::clock::Clock;
use weaver_core::name::{Namespace, TaskType};
use weaver_core::outcome::Outcome;
use weaver_core::ports::Store;
use weaver_process::attempt::{self, StopSignal, ended_how};
use weaver_process::confine::{Overlay, Purpose};
use weaver_process::{Confinement, Finished, Isolation, OutputLimits, ProcessSpec, StartError, program};
use weaver_runtime::{Ctx, TaskHandler};

use super::cache;
use super::checkout::{Place, check_out};
use super::removal::Remover;
use super::trees::{Tree, Trees};
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
    /// Namespace of the merge queues' documents. The task of a check is in its queue's own.
    pub namespace: Namespace,
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
    trees: Trees,
    remover: Arc<Remover>,
    /// This machine cannot mount overlays: each check gets files of its own.
    is_without_overlays: AtomicBool,
}

/// What a check task is about.
struct Prepared {
    forge: Arc<dyn Forge>,
    queue: MergeQueue,
    check: CheckConfig,
    /// Paths of the candidate that are replaced by those of the base.
    protected: Vec<String>,
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
        let remover = Arc::new(Remover::new());
        // Killed processes leave them; there may never be another check that does it.
        remover.clean_up(&options.directory);
        let (documents, trees) = (MergeDocuments::new(store), Trees::new(&options.directory, &remover));
        let is_without_overlays = AtomicBool::new(false);
        Self { task_type, documents, forges, clock, options, trees, remover, is_without_overlays }
    }

    /// Finds the check to run; `Err` is the outcome of the task.
    async fn prepare(&self, payload: &CheckPayload, ctx: &Ctx) -> Result<Prepared, Outcome> {
        let retryable = |error: &dyn std::fmt::Display| Outcome::failed(error.to_string());
        let namespace = &self.options.namespace;
        let stored =
            self.documents.load(namespace, &payload.queue).await.map_err(|error| retryable(&error))?;
        // A task of another namespace must not show its readers a repository of this one.
        let is_of_queue = |queue: &MergeQueue| {
            queue.namespace.as_ref().unwrap_or(namespace) == &ctx.key().namespace && queue.removal.is_none()
        };
        let Some(stored) = stored.filter(|stored| is_of_queue(&stored.queue)) else {
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
        let check = check.ok_or_else(|| {
            Outcome::fatal(format!("the configuration on the base branch has no check `{}`", payload.check))
        })?;
        let protected = if payload.on == CheckTarget::Candidate { config.protected } else { Vec::new() };
        Ok(Prepared { forge, queue: stored.queue, check, protected })
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
        let shared = sandbox.confinement.as_ref().and_then(|confinement| confinement.overlay.as_ref());
        let lower = shared.map_or(&files, |overlay| &overlay.lower);
        let program = program::find(OsStr::new(name), lower, Some(&self.options.path))?;
        // The overlay is there once the program runs.
        let program = program.strip_prefix(lower).map(|inner| files.join(inner)).unwrap_or(program);
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
    fn sandbox(
        &self,
        workspace: &Workspace,
        repository: &Repository,
        tree: Option<&Tree>,
    ) -> Result<Sandbox, String> {
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
        let mut confinement = isolation.confinement(&Purpose::Check, &own, &workspace.home(), user)?;
        if let (Some(tree), Some(confinement)) = (tree, &mut confinement) {
            workspace.create_layers(user).map_err(|error| format!("cannot create an overlay: {error}"))?;
            confinement.overlay = Some(Overlay {
                target: workspace.files(),
                lower: tree.files(),
                upper: workspace.upper(),
                work: workspace.work(),
            });
        }
        if let Some(user) = user {
            workspace
                .chown_to(user)
                .map_err(|error| format!("cannot change the owner of its files: {error}"))?;
        }
        Ok(Sandbox { confinement, cache })
    }

    async fn run(&self, payload: &CheckPayload, ctx: &Ctx) -> Result<Outcome, Outcome> {
        let found = self.prepare(payload, ctx).await?;
        let isolation = &self.options.isolation;
        // Without a sandbox of its own, a check could write to files that it shares.
        let can_share = !isolation.rules.unconfined
            && isolation.confiner.as_ref().is_some_and(|confiner| confiner.maps_owners())
            && !self.is_without_overlays.load(Ordering::Relaxed);
        if can_share {
            match self.run_in(payload, ctx, &found, true).await {
                Err(Interrupted::NoOverlay(problem)) => {
                    tracing::warn!(%problem, "each check gets a copy of all files");
                    self.is_without_overlays.store(true, Ordering::Relaxed);
                }
                Err(Interrupted::Ended(outcome)) => return Err(outcome),
                Ok(outcome) => return ended(outcome),
            }
        }
        match self.run_in(payload, ctx, &found, false).await {
            Ok(outcome) => ended(outcome),
            Err(Interrupted::Ended(outcome)) => Err(outcome),
            Err(Interrupted::NoOverlay(problem)) => Err(Outcome::failed(problem)),
        }
    }

    /// Runs the check in a workspace that is removed afterwards.
    async fn run_in(
        &self,
        payload: &CheckPayload,
        ctx: &Ctx,
        found: &Prepared,
        is_shared: bool,
    ) -> Result<RunOutcome, Interrupted> {
        let Prepared { forge, queue, check, protected } = found;
        let name = format!("{}-{}", ctx.key().id, ctx.attempt());
        let workspace = Workspace::new(&self.options.directory, &name, &self.remover)
            .map_err(|error| Outcome::failed(format!("cannot create a workspace for the check: {error}")))?;
        let files = workspace.files();
        let user = self.options.isolation.user_for(None);
        let place = if is_shared { Place::Shared(&self.trees, user) } else { Place::Own(&files) };
        let tree = match check_out(&**forge, queue, payload, protected, place).await? {
            Ok(tree) => tree,
            Err(outcome) => return Ok(outcome),
        };
        let sandbox = self.sandbox(&workspace, &queue.repository, tree.as_deref());
        let sandbox = sandbox.map_err(|reason| {
            Outcome::failed(format!("check `{}` cannot be confined: {reason}", check.name))
        })?;
        let outcome = match self.process(check, payload, &workspace, sandbox) {
            Ok(spec) => {
                let limit = check.timeout_s.map(Duration::from_secs);
                self.watch(check, &spec, limit, ctx).await?
            }
            // The change itself may have removed the program: a failed check, not a broken machine.
            Err(problem) => {
                RunOutcome::Failed { summary: problem, log_hash: hex(Sha256::new().finalize().into()) }
            }
        };
        drop(tree);
        self.trees.clean_up();
        Ok(outcome)
    }

    async fn watch(
        &self,
        check: &CheckConfig,
        spec: &ProcessSpec,
        limit: Option<Duration>,
        ctx: &Ctx,
    ) -> Result<RunOutcome, Interrupted> {
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
                Err(Outcome::failed(format!("check `{}` was stopped before it finished", check.name)).into())
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
            Err(error) if StartError::of(&error).is_some_and(StartError::is_about_overlay) => {
                Err(Interrupted::NoOverlay(error.to_string()))
            }
            Err(error) => {
                Err(Outcome::failed(format!("check `{}` cannot be run: {error}", check.name)).into())
            }
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

/// Why a check has no outcome.
enum Interrupted {
    /// The overlay cannot be mounted: nothing was run.
    NoOverlay(String),
    /// The outcome of the task.
    Ended(Outcome),
}

impl From<Outcome> for Interrupted {
    fn from(outcome: Outcome) -> Self {
        Self::Ended(outcome)
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
