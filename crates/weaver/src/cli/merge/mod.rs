//! `weaver merge …`: merge queues of a server, or in a store.

mod access;
mod certificates;
mod chain;
mod key;
mod notify;
mod run;
mod show;
pub(crate) mod side;
mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use weaver_api::{NewMergeEntry, NewMergeQueue};
use weaver_merge::domain::PRIORITY_DEFAULT;

use crate::cli::remote::Remote;
use crate::cli::store::StoreTask;
use crate::cli::{Context, Given, StoreArgs};
use crate::config::keys;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, start_log};
use access::Access;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver merge add-repo ./project.git --base main\n  \
    weaver merge enqueue --head feature\n  weaver merge status\n\n\
    Commands talk to a server, which processes the queues; with --store to a store that no server has open.\n\
    Checks are defined in .weaver/merge.toml on the base branch; docs/guides/merge-queue.md is a walkthrough.")]
pub(crate) enum Command {
    /// Create the merge queue of a base branch of a local repository
    AddRepo(AddRepoArgs),
    /// Remove a merge queue; its history and its chain are kept
    RemoveRepo(RemoveRepoArgs),
    /// Enqueue a branch
    Enqueue(EnqueueArgs),
    /// Show the entries of a queue and its history
    Status(StatusArgs),
    /// Show an entry with its merge candidate, checks and results
    Show(ShowArgs),
    /// Remove an entry from the queue
    Cancel(CancelArgs),
    /// Change the priority of an entry
    Priority(PriorityArgs),
    /// Pause a queue: no new checks and no landings
    Pause(PauseArgs),
    /// Resume a paused queue
    Resume(ResumeArgs),
    /// Wait until an entry has landed or left, or until the queue is empty
    Wait(wait::WaitArgs),
    /// List the certificates of landings
    Certificates(certificates::CertificatesArgs),
    /// Verify landings against the signed chain and the repository
    Verify(chain::VerifyArgs),
    /// Export the chain of signed landings, for offline verification
    Chain(chain::ChainArgs),
    /// Set the policy for commits pushed to the base branch from outside the queue
    OnForeign(chain::OnForeignArgs),
    /// Show or rotate the signing key of this node
    #[command(subcommand)]
    Key(key::Command),
    /// Process merge queues without a server: run checks, land what passes
    Run(run::RunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Server URL, or unix:PATH of its socket [default: this user's server on this machine]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    place: PlaceArgs,
    /// Merge queue, as shown by `weaver merge status` [default: the only one]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge add-repo ./project.git\n  \
    weaver merge add-repo /srv/git/project.git --base release --name project\n  \
    weaver merge add-repo /srv/git/project.git --namespace team-a\n\n\
    Only tokens for the namespace see the queue, its entries and the logs of its checks.")]
pub(crate) struct AddRepoArgs {
    /// Path of the repository: bare, or with the base branch not checked out
    path: PathBuf,
    /// Base branch, on which changes land
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    base: String,
    /// Name of the repository [default: its directory's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Access namespace of the queue [default: merge.namespace]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Policy for commits pushed to the base branch from outside the queue [default: pause]
    #[arg(long, value_name = "POLICY")]
    on_foreign: Option<chain::OnForeign>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge remove-repo project:main\n  \
    weaver merge remove-repo project:main --cancel-entries\n\n\
    The repository is not changed. `weaver merge chain` and `verify --all` still work with --queue QUEUE,\n\
    and history and chain continue if the repository is added again under the same name.")]
pub(crate) struct RemoveRepoArgs {
    /// Merge queue, as shown by `weaver merge status`
    queue: String,
    /// Cancel open entries and stop their checks; without it they refuse the removal
    #[arg(long)]
    cancel_entries: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge enqueue --head feature\n  weaver merge enqueue --head fix --priority 1\n  \
    weaver merge enqueue --head fix --wait && echo landed\n\n\
    With --wait the exit code is that of `weaver merge wait`: 7 if it did not land, 4 after --wait-timeout."
)]
pub(crate) struct EnqueueArgs {
    /// Branch to merge
    #[arg(long, value_name = "BRANCH")]
    head: String,
    /// Refuse unless the branch is at this commit (40 or 64 hexadecimal digits)
    #[arg(long, value_name = "SHA")]
    sha: Option<String>,
    /// Priority from 0 (most urgent) to 9
    #[arg(long, value_name = "N", default_value_t = PRIORITY_DEFAULT, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: u8,
    /// Wait until the entry has landed or left the queue
    #[arg(long)]
    wait: bool,
    /// Maximum wait: 30s, 5m, 12h [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = crate::cli::tasks::wait::span, requires = "wait")]
    wait_timeout: Option<Duration>,
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
    /// Number of the entry
    entry: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge cancel 3")]
pub(crate) struct CancelArgs {
    /// Number of the entry
    entry: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge priority 3 0")]
pub(crate) struct PriorityArgs {
    /// Number of the entry
    entry: u64,
    /// Priority from 0 (most urgent) to 9
    #[arg(value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: u8,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver merge pause --reason 'release day'")]
pub(crate) struct PauseArgs {
    /// Reason, shown to other users
    #[arg(long, value_name = "TEXT", default_value = "paused by an operator")]
    reason: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge resume\n  weaver merge resume --accept 3f6c1f0e2f7e4b0f5a8f0f5a6c1d2e3f4a5b6c7d\n\n\
    A queue that paused because of commits from outside pauses again until they are accepted; the pause names the commit."
)]
pub(crate) struct ResumeArgs {
    /// Accept the base at this commit, untested: the full commit hash
    #[arg(long, value_name = "SHA")]
    accept: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Command {
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        let place = match self {
            Self::Run(args) => return vec![args.store.setting()],
            Self::Key(command) => return vec![command.store().setting()],
            Self::AddRepo(args) => &args.place,
            Self::RemoveRepo(args) => &args.place,
            other => &other.common().expect("all other commands have it").place,
        };
        vec![place.store.setting(), (keys::SERVER, place.server.as_ref())]
    }

    /// Whether it works on a store instead of a server.
    fn is_local(&self) -> bool {
        match self {
            Self::Run(_) => true,
            Self::AddRepo(args) => args.place.store.store.is_some(),
            Self::RemoveRepo(args) => args.place.store.store.is_some(),
            other => other.common().is_some_and(|common| common.place.store.store.is_some()),
        }
    }

    fn common(&self) -> Option<&Common> {
        match self {
            Self::AddRepo(_) | Self::RemoveRepo(_) | Self::Run(_) | Self::Key(_) => None,
            Self::Chain(args) => Some(&args.common),
            Self::OnForeign(args) => Some(&args.common),
            Self::Enqueue(args) => Some(&args.common),
            Self::Status(args) => Some(&args.common),
            Self::Show(args) => Some(&args.common),
            Self::Cancel(args) => Some(&args.common),
            Self::Priority(args) => Some(&args.common),
            Self::Pause(args) => Some(&args.common),
            Self::Resume(args) => Some(&args.common),
            Self::Wait(args) => Some(&args.common),
            Self::Certificates(args) => Some(&args.common),
            Self::Verify(args) => Some(&args.common),
        }
    }
}

pub(crate) async fn run(command: Command, context: Context) -> Result<Exit, Failure> {
    match &command {
        Command::Key(command) => return key::run(command, &context),
        Command::Verify(args) if args.is_offline() => return chain::verify_offline(args, &context).await,
        _ => {}
    }
    if !command.is_local() {
        return execute(&command, &Access::Server(Remote::new(&context)?)).await;
    }
    start_log(&context.config);
    let task = StoreTask::new(context)?;
    let progress = Progress::new("opening the store");
    let store = match &command {
        Command::AddRepo(_) | Command::Run(_) => task.open_to_serve(&progress).await?,
        _ => task.open_to_work(&progress).await?,
    };
    let context = &task.context;
    if let Command::Run(args) = &command {
        return Box::pin(run::run(args, store, context)).await;
    }
    let engine = side::engine(&store, &context.config, &context.clock)?;
    execute(&command, &Access::Store(engine, context)).await
}

async fn execute(command: &Command, access: &Access<'_>) -> Result<Exit, Failure> {
    let output = &access.context().output;
    if let Command::AddRepo(args) = command {
        let queue = access.add(&new_queue(args)?).await?;
        output.answer(&queue, || {
            format!("Created merge queue {} with base branch `{}`.\n", queue.id, queue.base_branch)
        })?;
        return Ok(Exit::Done);
    }
    if let Command::RemoveRepo(args) = command {
        return remove(access, args).await;
    }
    let queue = the_queue(access, command.common().and_then(|common| common.queue.as_deref())).await?;
    match command {
        Command::Enqueue(args) => {
            let new = NewMergeEntry {
                change: args.head.clone(),
                priority: Some(args.priority),
                sha: args.sha.clone(),
            };
            let entry = access.enqueue(&queue, &new).await?;
            if args.wait {
                return wait::until_left(access, &queue, entry.entry, args.wait_timeout).await;
            }
            let at = entry.position.map_or_else(String::new, |position| format!(" at position {position}"));
            output.answer(&entry, || {
                format!(
                    "Enqueued `{}` at {} in {queue} as entry {}{at}.\n",
                    entry.change, entry.head, entry.entry
                )
            })?;
        }
        Command::Status(_) => show::status(access, &queue).await?,
        Command::Show(args) => show::entry(access, &queue, args.entry).await?,
        Command::Verify(args) => return chain::verify(access, &queue, args).await,
        Command::Wait(args) => return wait::run(access, &queue, args).await,
        Command::Certificates(args) => certificates::list(access, &queue, args).await?,
        Command::Cancel(args) => {
            let entry = access.cancel(&queue, args.entry).await?;
            output.answer(&entry, || format!("Entry {} is removed.\n", args.entry))?;
        }
        Command::Priority(args) => {
            let entry = access.priority(&queue, args.entry, args.priority).await?;
            let position = entry.position.unwrap_or_default();
            output.answer(&entry, || format!("Entry {} is at position {position}.\n", args.entry))?;
        }
        Command::Pause(args) => {
            let queue = access.pause(&queue, &args.reason).await?;
            output.answer(&queue, || "Paused.\n".to_owned())?;
        }
        Command::Resume(args) => {
            let queue = match &args.accept {
                Some(commit) => access.accept(&queue, commit).await?,
                None => access.resume(&queue).await?,
            };
            output.answer(&queue, || "Resumed.\n".to_owned())?;
        }
        Command::Chain(_) => chain::export(access, &queue).await?,
        Command::OnForeign(args) => chain::on_foreign(access, &queue, args).await?,
        Command::AddRepo(_) | Command::RemoveRepo(_) | Command::Run(_) | Command::Key(_) => {}
    }
    Ok(Exit::Done)
}

async fn remove(access: &Access<'_>, args: &RemoveRepoArgs) -> Result<Exit, Failure> {
    let queue = access.remove(&args.queue, args.cancel_entries).await?;
    access.context().output.answer(&queue, || {
        let (cancelled, complete) =
            queue.removed.as_ref().map_or((0, true), |removal| (removal.entries, removal.complete));
        let done = if complete { "Removed" } else { "Started to remove" };
        format!("{done} merge queue {}; {cancelled} entries cancelled. Its chain is kept.\n", queue.id)
    })?;
    Ok(Exit::Done)
}

/// The repository by its absolute path. One that does not exist here may be on the server's machine.
fn new_queue(args: &AddRepoArgs) -> Result<NewMergeQueue, Failure> {
    let path = match std::fs::canonicalize(&args.path) {
        Ok(path) => path,
        Err(_) if args.place.server.is_some() && args.path.is_absolute() => args.path.clone(),
        Err(error) => return Err(Failure::io(&args.path, &error)),
    };
    let location = text_of(&path)?;
    Ok(NewMergeQueue {
        location,
        base_branch: Some(args.base.clone()),
        name: args.name.clone(),
        namespace: args.namespace.clone(),
        on_foreign: args.on_foreign.map(chain::OnForeign::to_wire),
    })
}

fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{} is not UTF-8", path.display())).next("rename the directory")
    })
}

/// The named queue, or the only one.
async fn the_queue(access: &Access<'_>, named: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = named {
        return Ok(access.queue(name).await?.id);
    }
    let mut ids: Vec<String> = access.queues().await?.into_iter().map(|queue| queue.id).collect();
    match ids.len() {
        1 => Ok(ids.remove(0)),
        0 => Err(Failure::new(Exit::NotFound, "no merge queue found")
            .next("create one with `weaver merge add-repo PATH`")),
        _ => {
            let message = format!("there are several merge queues: {}", ids.join(", "));
            Err(Failure::new(Exit::Usage, message).next("name one with --queue"))
        }
    }
}
