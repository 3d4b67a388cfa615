//! `weaver queues …`.

use std::time::Duration;

use clap::{Args, Subcommand};
use weaver::core::task::TaskState;
use weaver_api::{Dispatch, PutQueue, QueueVersion};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::Table;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver queues list\n  weaver queues pause mail")]
pub(crate) enum Command {
    /// List queues with their counts and concurrency limits
    List(ListArgs),
    /// Pause a queue: no new leases; running tasks continue
    Pause(PauseArgs),
    /// Resume a paused queue
    Resume(ResumeArgs),
    /// Set or remove the concurrency limit of a queue
    Limit(LimitArgs),
    /// Set whether workers pull its tasks or a leader assigns them
    Dispatch(DispatchArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver queues list\n  weaver queues list --namespace other --output json"
)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver queues pause mail")]
pub(crate) struct PauseArgs {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver queues resume mail")]
pub(crate) struct ResumeArgs {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver queues limit mail 4\n  weaver queues limit mail none")]
pub(crate) struct LimitArgs {
    /// Name of the queue
    queue: String,
    /// Tasks that may run at once, from 1; `none`: no limit
    #[arg(value_parser = limit)]
    limit: Limit,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver queues dispatch mail assign\n  weaver queues dispatch mail pull")]
pub(crate) struct DispatchArgs {
    /// Name of the queue
    queue: String,
    /// pull: workers lease its tasks; assign: the leader of the cluster assigns them
    #[arg(value_parser = dispatch)]
    dispatch: Dispatch,
    #[command(flatten)]
    remote: RemoteArgs,
}

fn dispatch(text: &str) -> Result<Dispatch, String> {
    Dispatch::from_word(text).ok_or_else(|| "give `pull` or `assign`".to_owned())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    match text.parse() {
        _ if text == "none" => Ok(Limit(None)),
        Ok(count) if count > 0 => Ok(Limit(Some(count))),
        _ => Err("give a number from 1, or `none` (to stop leasing, pause the queue)".to_owned()),
    }
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::List(args) => &args.remote,
            Self::Pause(args) => &args.remote,
            Self::Resume(args) => &args.remote,
            Self::Limit(args) => &args.remote,
            Self::Dispatch(args) => &args.remote,
        }
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    let remote = Remote::new(context)?;
    let (client, namespace) = (&remote.client, remote.namespace.as_str());
    match command {
        Command::List(_) => list(&remote).await,
        Command::Pause(args) => report(&remote, &client.pause_queue(namespace, &args.queue).await?),
        Command::Resume(args) => report(&remote, &client.resume_queue(namespace, &args.queue).await?),
        Command::Limit(args) => {
            let limit = |settings| PutQueue { max_running: args.limit.0, ..settings };
            report(&remote, &set(&remote, &args.queue, limit).await?)
        }
        Command::Dispatch(args) => {
            let dispatch = |settings| PutQueue { dispatch: args.dispatch, ..settings };
            report(&remote, &set(&remote, &args.queue, dispatch).await?)
        }
    }
}

async fn list(remote: &Remote<'_>) -> Result<Exit, Failure> {
    let queues = remote.client.queues(&remote.namespace).await?;
    let output = &remote.context.output;
    output.answer(&queues, || {
        let mut table =
            Table::new(["QUEUE", "IN USE", "LIMIT", "QUEUED", "RUNNING", "DELAYED", "DEAD", "OLDEST WAIT"]);
        for queue in &queues.items {
            let count = |state| queue.counts.states.0.get(&state).copied().unwrap_or_default();
            let delayed = count(TaskState::Scheduled) + count(TaskState::RetryScheduled);
            table.row([
                queue.name.clone(),
                if queue.paused { "paused".to_owned() } else { queue.occupied.to_string() },
                queue.max_running.map_or_else(|| "none".to_owned(), |limit| limit.to_string()),
                count(TaskState::Queued).to_string(),
                count(TaskState::Running).to_string(),
                delayed.to_string(),
                count(TaskState::Dead).to_string(),
                queue.counts.oldest_wait_ms.map_or_else(String::new, span),
            ]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

/// Optimistic concurrency: settings are written as a whole on the version that was read, or refused.
async fn set(
    remote: &Remote<'_>,
    name: &str,
    change: impl FnOnce(PutQueue) -> PutQueue,
) -> Result<QueueVersion, Failure> {
    let queues = remote.client.queues(&remote.namespace).await?;
    let found = queues.items.iter().find(|queue| queue.name == name);
    let settings = change(PutQueue {
        paused: found.is_some_and(|queue| queue.paused),
        max_running: found.and_then(|queue| queue.max_running),
        dispatch: found.map_or_else(Default::default, |queue| queue.dispatch),
        expected_version: Some(found.map_or(0, |queue| queue.version)),
    });
    Ok(remote.client.put_queue(&remote.namespace, name, &settings).await?)
}

fn report(remote: &Remote<'_>, queue: &QueueVersion) -> Result<Exit, Failure> {
    remote.context.output.answer(queue, || {
        let state = if queue.paused { "paused" } else { "active" };
        let limit = queue
            .max_running
            .map_or_else(|| "no concurrency limit".to_owned(), |limit| format!("concurrency limit {limit}"));
        let assigned = match queue.dispatch {
            Dispatch::Pull => "",
            Dispatch::Assign => " A leader assigns its tasks.",
        };
        format!("Queue {} is {state}; {limit}.{assigned}\n", queue.name)
    })?;
    Ok(Exit::Done)
}

fn span(ms: u64) -> String {
    match Duration::from_millis(ms).as_secs() {
        0 => format!("{ms} ms"),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds @ 7200..=172_799 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
