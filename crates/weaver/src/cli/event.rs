//! `weaver event …`.

use clap::{Args, Subcommand};
use weaver_api::{NamespacePageQuery, NewEvent};

use crate::cli::Context;
use crate::cli::enqueue::read_payload;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, visible};

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  weaver event emit order.paid '{\"order\": 17}' --dedupe-key order-17\n  weaver event list"
)]
pub(crate) enum Command {
    /// Emit an event: each matching schedule enqueues one task
    Emit(EmitArgs),
    /// List events, and when they were processed
    List(ListArgs),
    /// Show an event
    Show(ShowArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver event emit order.paid '{\"order\": 17}' --dedupe-key order-17\n  \
    echo '{\"order\": 17}' | weaver event emit order.paid -"
)]
pub(crate) struct EmitArgs {
    /// Event type, matched exactly by schedules
    event_type: String,
    /// Payload: JSON, `@file`, or `-` for standard input
    payload: Option<String>,
    /// Deduplication key: a second event with the same key is ignored
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver event list\n  weaver event list --namespace other --output json")]
pub(crate) struct ListArgs {
    /// Maximum number of events, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver event show order-17")]
pub(crate) struct ShowArgs {
    /// Id of the event: its deduplication key, if it has one
    id: String,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        match self {
            Self::Emit(args) => &args.remote,
            Self::List(args) => &args.remote,
            Self::Show(args) => &args.remote,
        }
    }
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    match command {
        Command::Emit(args) => emit(args, context).await,
        Command::List(args) => list(&args, &Remote::new(context)?).await,
        Command::Show(args) => show(&args, &Remote::new(context)?).await,
    }
}

async fn emit(args: EmitArgs, context: &Context) -> Result<Exit, Failure> {
    let payload = args.payload.as_deref().map(read_payload).transpose()?;
    let remote = Remote::new(context)?;
    let event = NewEvent {
        namespace: Some(remote.namespace.clone()),
        event_type: args.event_type,
        payload,
        dedupe_key: args.dedupe_key,
    };
    let emitted = remote.client.emit(&event).await?;
    context.output.answer(&emitted, || match emitted.existing {
        true => format!("{} (existing event)\n", emitted.id),
        false => format!("{}\n", emitted.id),
    })?;
    Ok(Exit::Done)
}

async fn list(args: &ListArgs, remote: &Remote<'_>) -> Result<Exit, Failure> {
    let query = NamespacePageQuery {
        namespace: Some(remote.namespace.clone()),
        cursor: None,
        limit: Some(args.limit),
    };
    let page = remote.client.event_log(&query).await?;
    let output = &remote.context.output;
    output.answer(&page, || {
        let mut table = Table::new(["EVENT", "TYPE", "CREATED", "PROCESSED"]);
        for event in &page.items {
            let processed = event.processed_at.map_or_else(|| "not yet".to_owned(), instant);
            table.row([event.id.clone(), event.event_type.clone(), instant(event.created_at), processed]);
        }
        output.render(&table)
    })?;
    Ok(Exit::Done)
}

async fn show(args: &ShowArgs, remote: &Remote<'_>) -> Result<Exit, Failure> {
    let event = remote.client.event(&remote.namespace, &args.id).await?;
    remote.context.output.answer(&event, || {
        let details = [
            ("event", format!("{} in {}", event.id, event.namespace)),
            ("type", event.event_type.clone()),
            ("created", instant(event.created_at)),
            ("processed", event.processed_at.map_or_else(|| "not yet".to_owned(), instant)),
            ("payload", event.payload.as_str().to_owned()),
        ];
        details.iter().map(|(name, value)| format!("{name:<9}  {}\n", visible(value))).collect()
    })?;
    Ok(Exit::Done)
}
