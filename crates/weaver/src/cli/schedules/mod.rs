//! `weaver schedules …`: cron and event schedules.

mod change;
mod edit;
mod next;
mod notices;
mod show;
mod spec;

use clap::{Args, Subcommand};
use weaver_api::{SchedulesQuery, Trigger};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant};

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  weaver schedules add nightly http '{\"url\": \"https://example.org/hook\"}' --cron 'daily at 02:30' --tz Europe/Berlin\n  \
    weaver schedules next nightly\n  weaver schedules next --cron '30 2 * * *' --tz Europe/Berlin"
)]
pub(crate) enum Command {
    /// Add a cron or event schedule
    Add(edit::AddArgs),
    /// List schedules with their last and next runs
    List(ListArgs),
    /// Show a schedule with its upcoming runs and last tasks
    Show(ShowArgs),
    /// Change a schedule by flags, from a file, or in $EDITOR
    Edit(edit::EditArgs),
    /// Enable a schedule
    Enable(EnableArgs),
    /// Disable a schedule; tasks it already enqueued are not affected
    Disable(DisableArgs),
    /// Run a schedule now: enqueue its task
    RunNow(RunNowArgs),
    /// Print the upcoming runs of a schedule, or of a cron expression without a server
    Next(next::NextArgs),
    /// List runs that were merged, skipped or replaced, with the reason
    Notices(notices::NoticesArgs),
    /// Remove a schedule; tasks it already enqueued are not affected
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules list\n  weaver schedules list --output json")]
pub(crate) struct ListArgs {
    /// Only schedules whose name has this prefix
    prefix: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules show nightly")]
pub(crate) struct ShowArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules enable nightly")]
pub(crate) struct EnableArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules disable nightly")]
pub(crate) struct DisableArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver schedules run-now nightly\n  weaver schedules run-now nightly --wait\n\n\
    With --wait the exit code is that of `weaver tasks wait`: 7 if the task is dead or cancelled."
)]
pub(crate) struct RunNowArgs {
    /// Name of the schedule
    name: String,
    /// Wait for the task to end and print its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules remove nightly")]
pub(crate) struct RemoveArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::Add(args) => &args.remote,
            Self::List(args) => &args.remote,
            Self::Show(args) => &args.remote,
            Self::Edit(args) => &args.remote,
            Self::Enable(args) => &args.remote,
            Self::Disable(args) => &args.remote,
            Self::RunNow(args) => &args.remote,
            Self::Next(args) => &args.remote,
            Self::Notices(args) => &args.remote,
            Self::Remove(args) => &args.remote,
        }
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    if let Command::Next(args) = &command
        && let Some(cron) = &args.cron
    {
        return next::of_expression(args, cron, context);
    }
    let remote = Remote::new(context)?;
    match command {
        Command::Add(args) => edit::add(&remote, args).await,
        Command::List(args) => list(&remote, args).await,
        Command::Show(args) => show::run(&remote, &args.name).await,
        Command::Edit(args) => edit::edit(&remote, args).await,
        Command::Enable(args) => change::enable(&remote, &args.name, true).await,
        Command::Disable(args) => change::enable(&remote, &args.name, false).await,
        Command::RunNow(args) => change::run_now(&remote, &args.name, args.wait).await,
        Command::Next(args) => next::of_schedule(&remote, &args).await,
        Command::Notices(args) => notices::run(&remote, &args).await,
        Command::Remove(args) => change::remove(&remote, &args.name).await,
    }
}

async fn list(remote: &Remote<'_>, args: ListArgs) -> Result<Exit, Failure> {
    let mut query = SchedulesQuery {
        namespace: Some(remote.namespace.clone()),
        prefix: args.prefix,
        cursor: None,
        limit: Some(1000),
    };
    let mut schedules = Vec::new();
    loop {
        let page = remote.client.schedules(&query).await?;
        schedules.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let output = &remote.context.output;
    output.answer(&schedules, || {
        if schedules.is_empty() {
            return "No schedules. Add one with `weaver schedules add`.\n".to_owned();
        }
        let mut table = Table::new(["NAME", "TRIGGER", "TASK TYPE", "NEXT RUN", "LAST RUN"]);
        for schedule in &schedules {
            let next = match schedule.next_run_at {
                Some(at) => instant(at),
                None if !schedule.spec.enabled => "disabled".to_owned(),
                None => String::new(),
            };
            let last = schedule.last_run_at.map_or_else(String::new, instant);
            table.row([
                schedule.name.clone(),
                trigger_text(&schedule.spec.trigger),
                schedule.spec.task.task_type.clone(),
                next,
                last,
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

fn trigger_text(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Time { schedule, tz: Some(tz), .. } => format!("{schedule} in {tz}"),
        Trigger::Time { schedule, .. } => schedule.clone(),
        Trigger::Event { event_type } => format!("on event {event_type}"),
    }
}
