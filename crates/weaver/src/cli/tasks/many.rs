//! `weaver tasks cancel --matching` and `retry --matching`: bulk changes by a filter.

use std::io::IsTerminal;

use clap::Args;
use serde_json::json;
use weaver_api::{BulkRequest, ListTasksQuery};

use super::change::Change;
use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};
use crate::output::stored_states;

#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// Instead of ids: all tasks that match the filters below
    #[arg(long, conflicts_with = "ids")]
    pub(crate) matching: bool,
    /// Without a filter: all tasks of the namespace
    #[arg(long, requires = "matching", conflicts_with_all = ["ids", "state", "task_type", "queue", "group", "session", "label"])]
    all: bool,
    /// Do not ask for confirmation before changing all tasks of the namespace
    #[arg(long, short, requires = "matching")]
    yes: bool,
    /// Only count the matching tasks
    #[arg(long, requires = "matching", conflicts_with = "ids")]
    dry_run: bool,
    /// Only these states, comma-separated: queued, scheduled, running, retrying, succeeded, dead, cancelled,
    /// …
    #[arg(long, value_name = "STATES", requires = "matching", conflicts_with = "ids")]
    state: Option<String>,
    /// Only this task type
    #[arg(long = "type", value_name = "TYPE", requires = "matching", conflicts_with = "ids")]
    task_type: Option<String>,
    /// Only this queue
    #[arg(long, value_name = "NAME", requires = "matching", conflicts_with = "ids")]
    queue: Option<String>,
    /// Only this task group
    #[arg(long, value_name = "ID", requires = "matching", conflicts_with = "ids")]
    group: Option<String>,
    /// Only this session
    #[arg(long, value_name = "ID", requires = "matching", conflicts_with = "ids")]
    session: Option<String>,
    /// Only tasks with this label, as NAME=VALUE
    #[arg(long, value_name = "NAME=VALUE", requires = "matching", conflicts_with = "ids")]
    label: Option<String>,
}

impl ManyArgs {
    fn has_filter(&self) -> bool {
        let filters = [&self.state, &self.task_type, &self.queue, &self.group, &self.session, &self.label];
        filters.iter().any(|filter| filter.is_some())
    }
}

/// Page by page until nothing more matches. Changes made so far are kept if a page fails.
pub(crate) async fn run(remote: &Remote<'_>, args: ManyArgs, change: Change) -> Result<Exit, Failure> {
    if !args.has_filter() && !args.all {
        let message =
            format!("--matching without a filter selects all tasks of namespace `{}`", remote.namespace);
        return Err(
            Failure::new(Exit::Usage, message).next("give a filter such as --queue or --state, or --all")
        );
    }
    let must_ask = args.all && !args.yes && !args.dry_run;
    let how = BulkRequest { dry_run: args.dry_run };
    let mut query = ListTasksQuery {
        namespace: Some(remote.namespace.clone()),
        state: args.state.as_deref().map(stored_states),
        task_type: args.task_type,
        queue: args.queue,
        group: args.group,
        session: args.session,
        label: args.label,
        ..ListTasksQuery::default()
    };
    if must_ask {
        confirm(&count(remote, &query, change).await?, &remote.namespace, change)?;
    }
    let (mut matched, mut changed, mut refused, mut why) = (0, 0, 0, None);
    loop {
        let answer = match change {
            Change::Retry => remote.client.retry_many(&query, &how).await?,
            _ => remote.client.cancel_many(&query, &how).await?,
        };
        matched += answer.matched;
        changed += answer.changed;
        refused += answer.refused;
        why = why.or(answer.problem.map(|problem| problem.detail));
        query.cursor = answer.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let answer = json!({"matched": matched, "changed": changed, "refused": refused, "dry_run": how.dry_run});
    let verb = if change == Change::Retry { "Retried" } else { "Cancelled" };
    remote.context.output.answer(&answer, || match (how.dry_run, why) {
        (true, _) => format!("{matched} tasks match; dry run, nothing was changed.\n"),
        (false, None) => format!("{verb} {changed} of {matched} tasks.\n"),
        (false, Some(why)) => {
            format!("{verb} {changed} of {matched} tasks; {refused} refused, the first: {why}.\n")
        }
    })?;
    Ok(if refused > 0 { Exit::Refused } else { Exit::Done })
}

/// Counts the matching tasks with a dry run.
async fn count(remote: &Remote<'_>, query: &ListTasksQuery, change: Change) -> Result<String, Failure> {
    let (mut query, mut matched, how) = (query.clone(), 0, BulkRequest { dry_run: true });
    loop {
        let answer = match change {
            Change::Retry => remote.client.retry_many(&query, &how).await?,
            _ => remote.client.cancel_many(&query, &how).await?,
        };
        matched += answer.matched;
        query.cursor = answer.next;
        if query.cursor.is_none() {
            return Ok(matched.to_string());
        }
    }
}

/// Asks on the terminal; without one, `--yes` is required.
fn confirm(count: &str, namespace: &str, change: Change) -> Result<(), Failure> {
    let verb = if change == Change::Retry { "retry" } else { "cancel" };
    if !std::io::stdin().is_terminal() {
        let message = format!("{verb} all {count} tasks of namespace `{namespace}`: not confirmed");
        return Err(Failure::new(Exit::Refused, message).next("pass --yes, or run it on a terminal"));
    }
    eprint!("{verb} all {count} tasks of namespace `{namespace}`? Type yes: ");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line); // Unreadable input is not `yes`.
    if line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "not confirmed: nothing was changed").next("type `yes`, or pass --yes"))
}
