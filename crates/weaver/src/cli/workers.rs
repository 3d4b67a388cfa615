//! `weaver workers list`.

use clap::{Args, Subcommand};
use weaver_api::{NamespacePageQuery, Page, Worker};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, word};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver workers list")]
pub(crate) enum Command {
    /// List workers with their status and last heartbeat
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver workers list\n  weaver workers list --output json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Command {
    pub(crate) fn remote(&self) -> &RemoteArgs {
        let Self::List(args) = self;
        &args.remote
    }
}

pub(crate) async fn run(_command: Command, context: &Context) -> Result<Exit, Failure> {
    let remote = Remote::new(context)?;
    let mut items: Vec<Worker> = Vec::new();
    let mut query =
        NamespacePageQuery { namespace: Some(remote.namespace.clone()), limit: Some(1000), cursor: None };
    loop {
        let page = remote.client.workers(&query).await?;
        items.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let page = Page { items, next: None, complete: true };
    context.output.answer(&page, || {
        let mut table = Table::new(["WORKER", "STATUS", "RUNNING", "QUEUES", "TYPES", "LAST HEARTBEAT"]);
        for worker in &page.items {
            let heartbeat = &worker.heartbeat;
            let status = if worker.alive || word(&worker.status) != "running" {
                word(&worker.status)
            } else {
                "silent".to_owned()
            };
            table.row([
                heartbeat.worker_id.clone(),
                status,
                format!("{} of {}", heartbeat.running, heartbeat.capacity),
                heartbeat.queues.join(", "),
                heartbeat.types.as_ref().map_or_else(|| "any".to_owned(), |types| types.join(", ")),
                instant(worker.last_heartbeat_at),
            ]);
        }
        context.output.render(&table)
    })?;
    Ok(Exit::Done)
}
