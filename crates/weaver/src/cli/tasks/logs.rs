//! `weaver tasks logs`.

use std::io::{self, IsTerminal};

use clap::Args;
use weaver_api::{LogPage, LogsQuery};

use crate::cli::remote::{Remote, RemoteArgs};
use crate::exit::{Exit, Failure};
use crate::output::{print, visible};

/// Long poll while nothing is logged.
const HOLD_MS: u64 = 20_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks logs 17\n  weaver tasks logs 17 -f\n  weaver tasks logs 17 --attempt 1 --last 20\n\n\
    With --output json each line is a JSON document of its own."
)]
pub(crate) struct LogsArgs {
    /// Id of the task
    id: String,
    /// Follow until the task ends; with --attempt, until that attempt ends
    #[arg(long, short)]
    follow: bool,
    /// Attempt number, from 1 [default: the latest]
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// Only the last COUNT lines, 1 to 1000
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    last: Option<u32>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &LogsArgs) -> Result<Exit, Failure> {
    let query = LogsQuery {
        namespace: Some(remote.namespace.clone()),
        attempt: args.attempt,
        last: args.last,
        ..LogsQuery::default()
    };
    print_lines(remote, &args.id, query, args.follow).await
}

/// Follows the log of a task until it ends.
pub(crate) async fn follow(remote: &Remote<'_>, id: &str) -> Result<Exit, Failure> {
    let query = LogsQuery { namespace: Some(remote.namespace.clone()), ..LogsQuery::default() };
    print_lines(remote, id, query, true).await
}

async fn print_lines(
    remote: &Remote<'_>,
    id: &str,
    mut query: LogsQuery,
    is_followed: bool,
) -> Result<Exit, Failure> {
    let of_one_attempt = query.attempt.is_some();
    loop {
        let page = remote.client.logs(id, &query).await?;
        print(&text_of(&page, remote.context.output.is_json))?;
        query.last = None;
        if !page.more && (page.ended || !is_followed) {
            if !is_followed || of_one_attempt || is_over(remote, id).await? {
                return Ok(Exit::Done);
            }
            // The next attempt is awaited like the next line.
            query =
                LogsQuery { attempt: Some(page.attempt + 1), after: None, wait_ms: Some(HOLD_MS), ..query };
            continue;
        }
        query.after = Some(page.next);
        query.wait_ms = is_followed.then_some(HOLD_MS);
        // An attempt is read to its end even if a later one has started. 0: none has started yet.
        query.attempt = Some(page.attempt).filter(|attempt| *attempt > 0).or(query.attempt);
    }
}

async fn is_over(remote: &Remote<'_>, id: &str) -> Result<bool, Failure> {
    Ok(remote.client.task(&remote.namespace, id).await?.state.is_terminal())
}

fn text_of(page: &LogPage, is_json: bool) -> Vec<u8> {
    let mut text = Vec::new();
    // On a terminal, control characters are made visible; a file gets the bytes as logged.
    let is_terminal = io::stdout().is_terminal();
    for line in &page.lines {
        let body = &line.body.0;
        if is_json {
            text.extend(serde_json::to_vec(line).unwrap_or_default());
        } else if is_terminal {
            text.extend(visible(&String::from_utf8_lossy(body)).into_bytes());
        } else {
            text.extend_from_slice(body);
        }
        text.push(b'\n');
    }
    text
}
