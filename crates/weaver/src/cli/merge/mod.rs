//! `weaver merge …`: the merge queue, on a store.

mod run;
mod show;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use weaver::core::name::Namespace;
use weaver::core::ports::Store;
use weaver_merge::domain::{EntryId, MergeError, PRIORITY_DEFAULT, QueueId, Repository};
use weaver_merge::engine::{EngineError, EngineOptions, MergeEngine};
use weaver_merge::forge::git::{GitForge, GitForges};
use weaver_merge::notify::Notifications;
use weaver_merge::plan::Policy;

use crate::cli::store::StoreTask;
use crate::cli::{Context, StoreArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver merge add-repo ./project.git --base main\n  \
    weaver merge enqueue --head feature\n  weaver merge run\n\n\
    The checks are in .weaver/merge.toml on the base branch; docs/guides/merge-queue.md shows it from the beginning.")]
pub(crate) enum Command {
    /// Make the queue of a base branch of a repository on this machine
    AddRepo(AddRepoArgs),
    /// Put a branch in line
    Enqueue(EnqueueArgs),
    /// Show who waits, and who left
    Status(StatusArgs),
    /// Show an entry: its candidate, its checks and how they ended
    Show(ShowArgs),
    /// Take an entry out
    Cancel(CancelArgs),
    /// Give an entry another priority
    Priority(PriorityArgs),
    /// Start nothing new
    Pause(PauseArgs),
    /// Go on
    Resume(ResumeArgs),
    /// Check what landed against the repository
    Verify(VerifyArgs),
    /// Process the queues: run checks, land what passes
    Run(run::RunArgs),
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    store: StoreArgs,
    /// The queue, as `weaver merge status` writes it [default: the only one there is]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge add-repo ./project.git\n  \
    weaver merge add-repo /srv/git/project.git --base release --name project")]
pub(crate) struct AddRepoArgs {
    /// The repository: a bare one, or one whose base branch is not checked out
    path: PathBuf,
    /// The branch that changes land on
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    base: String,
    /// What it is called here [default: the name of its directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge enqueue --head feature\n  weaver merge enqueue --head fix --priority 1"
)]
pub(crate) struct EnqueueArgs {
    /// The branch
    #[arg(long, value_name = "BRANCH")]
    head: String,
    /// From 0, the most urgent, to 9
    #[arg(long, value_name = "N", default_value_t = PRIORITY_DEFAULT, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: u8,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge status\n  weaver merge status --output json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge show 3")]
pub(crate) struct ShowArgs {
    /// The entry's number
    entry: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge cancel 3")]
pub(crate) struct CancelArgs {
    /// The entry's number
    entry: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge priority 3 0")]
pub(crate) struct PriorityArgs {
    /// The entry's number
    entry: u64,
    /// From 0, the most urgent, to 9
    #[arg(value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: u8,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge pause --reason 'release day'")]
pub(crate) struct PauseArgs {
    /// Why, for others
    #[arg(long, value_name = "TEXT", default_value = "paused by hand")]
    reason: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge resume")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge verify 3")]
pub(crate) struct VerifyArgs {
    /// The entry's number
    entry: u64,
    #[command(flatten)]
    common: Common,
}

impl Command {
    pub(crate) fn store(&self) -> &StoreArgs {
        match self {
            Self::AddRepo(args) => &args.store,
            Self::Run(args) => &args.store,
            other => &other.common().expect("the others have it").store,
        }
    }

    fn common(&self) -> Option<&Common> {
        match self {
            Self::AddRepo(_) | Self::Run(_) => None,
            Self::Enqueue(args) => Some(&args.common),
            Self::Status(args) => Some(&args.common),
            Self::Show(args) => Some(&args.common),
            Self::Cancel(args) => Some(&args.common),
            Self::Priority(args) => Some(&args.common),
            Self::Pause(args) => Some(&args.common),
            Self::Resume(args) => Some(&args.common),
            Self::Verify(args) => Some(&args.common),
        }
    }
}

pub(crate) async fn run(command: Command, context: Context) -> Result<Exit, Failure> {
    start_log(&context.config);
    let task = StoreTask::new(context)?;
    let progress = Progress::new("opening the store");
    let store = match &command {
        Command::AddRepo(_) | Command::Run(_) => task.open_to_serve(&progress).await?,
        _ => task.open_to_work(&progress).await?,
    };
    let context = &task.context;
    let engine = engine(&store, context);
    match &command {
        Command::AddRepo(args) => return add_repo(args, &engine, context).await,
        Command::Run(args) => return Box::pin(run::run(args, &engine, store, context)).await,
        _ => {}
    }
    let queue = the_queue(&engine, command.common().and_then(|common| common.queue.as_deref())).await?;
    match command {
        Command::Enqueue(args) => {
            let at = engine.enqueue(&queue, &args.head, args.priority).await?;
            let answer = json!({"queue": queue, "entry": at.entry, "position": at.position});
            let told =
                format!("Entry {} of {queue}: `{}` at position {}.\n", at.entry, args.head, at.position);
            context.output.answer(&answer, || told)?;
        }
        Command::Status(_) => show::status(&engine, &queue, context).await?,
        Command::Show(args) => show::entry(&engine, &queue, EntryId(args.entry), context).await?,
        Command::Verify(args) => return show::verify(&engine, &queue, EntryId(args.entry), context).await,
        Command::Cancel(args) => {
            engine.cancel(&queue, EntryId(args.entry)).await?;
            said(context, &queue, &format!("Entry {} is out", args.entry))?;
        }
        Command::Priority(args) => {
            let position = engine.set_priority(&queue, EntryId(args.entry), args.priority).await?;
            said(context, &queue, &format!("Entry {} is at position {position}", args.entry))?;
        }
        Command::Pause(args) => {
            engine.pause(&queue, &args.reason).await?;
            said(context, &queue, "Paused")?;
        }
        Command::Resume(_) => {
            engine.resume(&queue).await?;
            said(context, &queue, "Resumed")?;
        }
        Command::AddRepo(_) | Command::Run(_) => {}
    }
    Ok(Exit::Done)
}

fn said(context: &Context, queue: &QueueId, what: &str) -> Result<(), Failure> {
    context.output.answer(&json!({"queue": queue, "done": what}), || format!("{what}.\n"))
}

fn engine(store: &Arc<dyn Store>, context: &Context) -> MergeEngine {
    let forges = Arc::new(GitForges::new(Arc::clone(&context.clock)));
    let options = EngineOptions {
        namespace: Namespace::default(),
        policy: Policy::default(),
        notifications: Notifications::default(),
    };
    MergeEngine::new(Arc::clone(store), forges, Arc::clone(&context.clock), options)
}

async fn add_repo(args: &AddRepoArgs, engine: &MergeEngine, context: &Context) -> Result<Exit, Failure> {
    let path = std::fs::canonicalize(&args.path).map_err(|error| Failure::io(&args.path, &error))?;
    let forge = GitForge::new(&path, Arc::clone(&context.clock));
    forge.examine(&args.base).await.map_err(EngineError::from)?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = args.name.clone().or(stem).unwrap_or_else(|| "repository".to_owned());
    let location = path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{} is not UTF-8", path.display())).next("rename the directory")
    })?;
    let queue = engine.add_queue(Repository { name, location }, &args.base).await?;
    let answer = json!({"queue": queue.id, "repository": queue.repository, "base_branch": queue.base_branch});
    context.output.answer(&answer, || format!("Queue {} lands on `{}`.\n", queue.id, queue.base_branch))?;
    Ok(Exit::Done)
}

/// The queue that was named, or the only one.
async fn the_queue(engine: &MergeEngine, named: Option<&str>) -> Result<QueueId, Failure> {
    if let Some(name) = named {
        return Ok(engine.get(&QueueId(name.to_owned())).await?.queue.id);
    }
    let mut ids: Vec<QueueId> = engine.queues().await?.into_iter().map(|queue| queue.id).collect();
    match ids.len() {
        1 => Ok(ids.remove(0)),
        0 => Err(Failure::new(Exit::NotFound, "there is no merge queue")
            .next("make one with `weaver merge add-repo PATH`")),
        _ => {
            let names: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
            let message = format!("there are several merge queues: {}", names.join(", "));
            Err(Failure::new(Exit::Usage, message).next("name one with --queue"))
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Store(error) => return Self::from(error.clone()),
            EngineError::NoQueue(_) | EngineError::Merge(MergeError::EntryNotFound(_)) => Exit::NotFound,
            EngineError::Merge(_) => Exit::Refused,
            EngineError::Busy => Exit::Busy,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
