//! `weaver tasks cancel --matching` and `retry --matching`: many at once, by a filter.

use clap::Args;
use serde_json::json;
use weaver_client::wire::{BulkRequest, ListTasksQuery};

use super::change::Change;
use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};

/// Which tasks, instead of their ids.
#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// Instead of ids: every task that matches the filters below
    #[arg(long, conflicts_with = "ids")]
    pub(crate) matching: bool,
    /// Only count them
    #[arg(long, requires = "matching", conflicts_with = "ids")]
    dry_run: bool,
    /// In one of these states, separated by commas
    #[arg(long, value_name = "STATES", requires = "matching", conflicts_with = "ids")]
    state: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE", requires = "matching", conflicts_with = "ids")]
    task_type: Option<String>,
    /// Of this queue
    #[arg(long, value_name = "NAME", requires = "matching", conflicts_with = "ids")]
    queue: Option<String>,
    /// Of this task group
    #[arg(long, value_name = "ID", requires = "matching", conflicts_with = "ids")]
    group: Option<String>,
    /// Of this session
    #[arg(long, value_name = "ID", requires = "matching", conflicts_with = "ids")]
    session: Option<String>,
    /// With this label, as NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE", requires = "matching", conflicts_with = "ids")]
    label: Option<String>,
}

/// Page by page until nothing more matches. What has been done stays done if a page fails.
pub(crate) async fn run(remote: &Remote<'_>, args: ManyArgs, change: Change) -> Result<Exit, Failure> {
    let how = BulkRequest { dry_run: args.dry_run };
    let mut query = ListTasksQuery {
        namespace: Some(remote.namespace.clone()),
        state: args.state,
        task_type: args.task_type,
        queue: args.queue,
        group: args.group,
        session: args.session,
        // On the wire a colon, which needs no escape in a URL.
        label: args.label.map(|label| label.replacen('=', ":", 1)),
        ..ListTasksQuery::default()
    };
    let (mut matched, mut done, mut refused, mut why) = (0, 0, 0, None);
    loop {
        let answer = match change {
            Change::Retry => remote.client.retry_many(&query, &how).await?,
            _ => remote.client.cancel_many(&query, &how).await?,
        };
        matched += answer.matched;
        done += answer.done;
        refused += answer.refused;
        why = why.or(answer.problem.map(|problem| problem.detail));
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let answer = json!({"matched": matched, "done": done, "refused": refused, "dry_run": how.dry_run});
    remote.context.output.answer(&answer, || match (how.dry_run, why) {
        (true, _) => format!("{matched} tasks match; nothing was changed.\n"),
        (false, None) => format!("{done} of {matched} tasks.\n"),
        (false, Some(why)) => format!("{done} of {matched} tasks; {refused} refused, the first: {why}.\n"),
    })?;
    Ok(if refused > 0 { Exit::Refused } else { Exit::Done })
}
