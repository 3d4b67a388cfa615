//! `weaver tasks cancel --matching` and `retry --matching`: many at once, by a filter.

use std::io::IsTerminal;

use clap::Args;
use serde_json::json;
use weaver_api::{BulkRequest, ListTasksQuery};

use super::change::Change;
use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};

/// Which tasks, instead of their ids.
#[derive(Debug, Args)]
pub(crate) struct ManyArgs {
    /// Instead of ids: every task that matches the filters below
    #[arg(long, conflicts_with = "ids")]
    pub(crate) matching: bool,
    /// Without a filter: every task of the namespace
    #[arg(long, requires = "matching", conflicts_with_all = ["ids", "state", "task_type", "queue", "group", "session", "label"])]
    all: bool,
    /// Do not ask before all tasks of the namespace are changed
    #[arg(long, short, requires = "matching")]
    yes: bool,
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

impl ManyArgs {
    fn has_filter(&self) -> bool {
        let filters = [&self.state, &self.task_type, &self.queue, &self.group, &self.session, &self.label];
        filters.iter().any(|filter| filter.is_some())
    }
}

/// Page by page until nothing more matches. What has been done stays done if a page fails.
pub(crate) async fn run(remote: &Remote<'_>, args: ManyArgs, change: Change) -> Result<Exit, Failure> {
    if !args.has_filter() && !args.all {
        let message =
            format!("--matching without a filter is every task of namespace `{}`", remote.namespace);
        return Err(Failure::new(Exit::Usage, message)
            .next("give a filter such as --queue or --state; or say --all if all of them are meant"));
    }
    let must_ask = args.all && !args.yes && !args.dry_run;
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
    if must_ask {
        confirm(&count(remote, &query, change).await?, &remote.namespace, change)?;
    }
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

/// How many tasks match.
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

/// Asks the person in front of the terminal; without one, `--yes` has to be said.
fn confirm(count: &str, namespace: &str, change: Change) -> Result<(), Failure> {
    let verb = if change == Change::Retry { "retry" } else { "cancel" };
    if !std::io::stdin().is_terminal() {
        let message = format!("{verb} all {count} tasks of namespace `{namespace}`: this was not confirmed");
        return Err(Failure::new(Exit::Refused, message).next("say --yes, or run it on a terminal"));
    }
    eprint!("{verb} all {count} tasks of namespace `{namespace}`? Type yes: ");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line); // What cannot be read is not `yes`.
    if line.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, "not confirmed: nothing was changed").next("type `yes`, or say --yes"))
}
