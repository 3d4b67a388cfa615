//! `weaver tasks list`.

use clap::Args;
use weaver_api::{ListTasksQuery, Order, Page, Task};

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{Table, instant, state, stored_states};

/// Tasks per request.
const PAGE: u32 = 1000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks list\n  weaver tasks list --state running,retrying --queue mail\n  \
    weaver tasks list --state dead --limit 1000 --output json"
)]
pub(crate) struct ListArgs {
    /// Only these states, comma-separated: queued, scheduled, running, retrying, succeeded, dead, cancelled,
    /// …
    #[arg(long, value_name = "STATES")]
    state: Option<String>,
    /// Only this task type
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only this task group
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only tasks with this label, as NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE")]
    label: Option<String>,
    /// List oldest first instead of newest first
    #[arg(long)]
    oldest_first: bool,
    /// Maximum number of tasks
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: ListArgs) -> Result<Exit, Failure> {
    let limit = args.limit;
    let mut query = ListTasksQuery {
        namespace: Some(remote.namespace.clone()),
        state: args.state.as_deref().map(stored_states),
        task_type: args.task_type,
        queue: args.queue,
        group: args.group,
        session: args.session,
        label: args.label,
        order: Some(if args.oldest_first { Order::OldestFirst } else { Order::NewestFirst }),
        ..ListTasksQuery::default()
    };
    let mut items: Vec<Task> = Vec::new();
    let next = loop {
        let missing = u32::try_from(limit - items.len()).unwrap_or(PAGE).min(PAGE);
        if missing == 0 {
            break query.cursor.take();
        }
        query.limit = Some(missing);
        let page = remote.client.list_tasks(&query).await?;
        items.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            break None;
        }
    };
    let has_more = next.is_some();
    let complete = !has_more;
    let page = Page { items, next, complete };
    let output = &remote.context.output;
    output.answer(&page, || {
        let mut table = Table::new(["ID", "STATE", "TYPE", "QUEUE", "ATTEMPT", "CREATED", "ERROR"]);
        for task in &page.items {
            table.row([
                task.id.clone(),
                state(task.state).to_owned(),
                task.task_type.clone(),
                task.queue.clone(),
                task.attempt.to_string(),
                instant(task.created_at),
                task.last_error.clone().unwrap_or_default(),
            ]);
        }
        let more = if has_more {
            format!("More tasks match: raise --limit (now {limit}).\n")
        } else {
            String::new()
        };
        output.render(&table) + &more
    })?;
    Ok(Exit::Done)
}
