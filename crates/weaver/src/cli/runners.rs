//! `weaver runners list`.

use clap::{Args, Subcommand};
use weaver_api::{NamespacePageQuery, Page, Runner};

use crate::cli::Context;
use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, word};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  weaver runners list")]
pub(crate) enum Command {
    /// List workers and runners, and when they were last heard of
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver runners list\n  weaver runners list --output json")]
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
    let mut items: Vec<Runner> = Vec::new();
    let mut query =
        NamespacePageQuery { namespace: Some(remote.namespace.clone()), limit: Some(1000), cursor: None };
    loop {
        let page = remote.client.runners(&query).await?;
        items.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let page = Page { items, next: None, complete: true };
    context.output.answer(&page, || {
        let mut table = Table::new(["RUNNER", "STATUS", "BUSY", "QUEUES", "TYPES", "LAST HEARD"]);
        for runner in &page.items {
            let beat = &runner.beat;
            let status = if runner.alive || word(&runner.status) != "running" {
                word(&runner.status)
            } else {
                "silent".to_owned()
            };
            table.row([
                beat.runner_id.clone(),
                status,
                format!("{} of {}", beat.running, beat.capacity),
                beat.queues.join(", "),
                beat.types.as_ref().map_or_else(|| "any".to_owned(), |types| types.join(", ")),
                instant(runner.last_heartbeat),
            ]);
        }
        context.output.render(&table)
    })?;
    Ok(Exit::Done)
}
