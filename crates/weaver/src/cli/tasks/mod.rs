//! `weaver tasks …`: listing, inspecting and managing tasks of a server.

mod change;
mod explain;
mod groups;
mod list;
pub(crate) mod logs;
mod many;
mod purge;
mod quarantine;
mod show;
pub(crate) mod wait;

use clap::{Args, Subcommand};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  weaver tasks list --state dead\n  weaver tasks explain 17\n  weaver tasks logs 17 -f"
)]
pub(crate) enum Command {
    /// List tasks, newest first
    List(list::ListArgs),
    /// Show a task with its payload, result and attempts
    Show(ShowArgs),
    /// List task groups with their counts
    Groups(groups::GroupsArgs),
    /// Explain why a task is not running, or how it ended
    Explain(ExplainArgs),
    /// Print the log of an attempt
    Logs(logs::LogsArgs),
    /// Wait for a task to end and print its result
    Wait(wait::WaitArgs),
    /// Cancel tasks; running handlers are signalled to stop
    Cancel(CancelArgs),
    /// Retry ended tasks as new tasks
    Retry(RetryArgs),
    /// Make scheduled and retrying tasks due now
    RunNow(RunNowArgs),
    /// List unreadable records: tasks, queue settings, workers, documents
    Quarantine(quarantine::QuarantineArgs),
    /// Delete a task permanently, in any state, after saving its stored form
    Purge(purge::PurgeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tasks show 17\n  weaver tasks show 17 --output json")]
pub(crate) struct ShowArgs {
    /// Id of the task
    id: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tasks explain 17")]
pub(crate) struct ExplainArgs {
    /// Id of the task
    id: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks cancel 17\n  weaver tasks cancel 17 18 19 --namespace other\n  \
    weaver tasks cancel --matching --queue mail --state queued --dry-run"
)]
pub(crate) struct CancelArgs {
    /// Ids of the tasks
    #[arg(required_unless_present = "matching")]
    ids: Vec<String>,
    #[command(flatten)]
    many: many::ManyArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks retry 17\n  weaver tasks retry --matching --state dead --type send_email"
)]
pub(crate) struct RetryArgs {
    /// Ids of the tasks
    #[arg(required_unless_present = "matching")]
    ids: Vec<String>,
    #[command(flatten)]
    many: many::ManyArgs,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver tasks run-now 17")]
pub(crate) struct RunNowArgs {
    /// Ids of the tasks
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::List(args) => &args.remote,
            Self::Show(args) => &args.remote,
            Self::Groups(args) => &args.remote,
            Self::Explain(args) => &args.remote,
            Self::Logs(args) => &args.remote,
            Self::Wait(args) => &args.remote,
            Self::Cancel(args) => &args.remote,
            Self::Retry(args) => &args.remote,
            Self::RunNow(args) => &args.remote,
            Self::Quarantine(args) => &args.remote,
            Self::Purge(args) => &args.remote,
        }
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    let remote = Remote::new(context)?;
    match command {
        Command::List(args) => list::run(&remote, args).await,
        Command::Show(args) => show::run(&remote, &args.id).await,
        Command::Groups(_) => groups::run(&remote).await,
        Command::Explain(args) => explain::run(&remote, &args.id).await,
        Command::Logs(args) => logs::run(&remote, &args).await,
        Command::Wait(args) => wait::run(&remote, &args).await,
        Command::Cancel(args) if args.many.matching => {
            many::run(&remote, args.many, change::Change::Cancel).await
        }
        Command::Retry(args) if args.many.matching => {
            many::run(&remote, args.many, change::Change::Retry).await
        }
        Command::Cancel(args) => change::run(&remote, &args.ids, change::Change::Cancel).await,
        Command::Retry(args) => change::run(&remote, &args.ids, change::Change::Retry).await,
        Command::RunNow(args) => change::run(&remote, &args.ids, change::Change::RunNow).await,
        Command::Quarantine(args) => quarantine::run(&remote, &args).await,
        Command::Purge(args) => purge::run(&remote, &args).await,
    }
}
