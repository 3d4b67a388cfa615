//! `weaver schedules …`: what is done when, or when something happens.

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
    /// Add a schedule: by the clock, or for events
    Add(edit::AddArgs),
    /// List schedules with their next fires
    List(ListArgs),
    /// Show a schedule with its next fires and its last tasks
    Show(ShowArgs),
    /// Change a schedule; with $EDITOR, if no flag says what
    Edit(edit::EditArgs),
    /// Let a schedule fire, from now on
    Enable(EnableArgs),
    /// Let a schedule fire no more
    Disable(DisableArgs),
    /// Make a schedule's task now
    RunNow(RunNowArgs),
    /// Print when a schedule fires next: one of a server, or any expression without one
    Next(next::NextArgs),
    /// Print what was merged, skipped or replaced, and why
    Notices(notices::NoticesArgs),
    /// Remove a schedule; the tasks it made stay
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules list\n  weaver schedules list --output json")]
pub(crate) struct ListArgs {
    /// Those whose name begins so
    prefix: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules show nightly")]
pub(crate) struct ShowArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules enable nightly")]
pub(crate) struct EnableArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules disable nightly")]
pub(crate) struct DisableArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver schedules run-now nightly\n  weaver schedules run-now nightly --wait\n\n\
    With --wait it ends as `weaver tasks wait` does: with 7 if the task is dead or cancelled."
)]
pub(crate) struct RunNowArgs {
    /// Its name
    name: String,
    /// Wait for the task's end and print its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver schedules remove nightly")]
pub(crate) struct RemoveArgs {
    /// Its name
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
            return "There are no schedules. Add one with `weaver schedules add`.\n".to_owned();
        }
        let mut table = Table::new(["NAME", "WHEN", "TASK", "NEXT", "LAST"]);
        for schedule in &schedules {
            let next = match schedule.next_fire_at {
                Some(at) => instant(at),
                None if !schedule.spec.enabled => "disabled".to_owned(),
                None => String::new(),
            };
            let last = schedule.last_fire_at.map_or_else(String::new, instant);
            table.row([
                schedule.name.clone(),
                when(&schedule.spec.trigger),
                schedule.spec.task.task_type.clone(),
                next,
                last,
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

/// A trigger in one line.
fn when(trigger: &Trigger) -> String {
    match trigger {
        Trigger::Time { schedule, tz: Some(tz), .. } => format!("{schedule} in {tz}"),
        Trigger::Time { schedule, .. } => schedule.clone(),
        Trigger::Event { event_type } => format!("on event {event_type}"),
    }
}
