//! `weaver tasks wait`.

use std::time::Duration;

use clap::Args;
use weaver::core::task::TaskState;
use weaver_api::Task;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::config::parse_span;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, print_failure, state, visible, with_progress, word};

/// Long poll per request.
const HOLD: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks wait 17\n  weaver tasks wait 17 --timeout 5m && echo done\n\n\
    Prints the result. Exit code 7: the task is dead or cancelled; 4: the timeout passed."
)]
pub(crate) struct WaitArgs {
    /// Id of the task
    id: String,
    /// Maximum wait: 30s, 5m, 12h [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &WaitArgs) -> Result<Exit, Failure> {
    until_ended(remote, &args.id, args.timeout, result).await
}

/// The result of a task, verbatim.
pub(crate) fn result(ended: &Task) -> String {
    let result = ended.result.as_ref().map(|result| result.as_str().to_owned());
    result.or_else(|| ended.result_hex.clone()).map_or_else(String::new, |result| visible(&result) + "\n")
}

/// Waits, prints the result as `text` renders it, and returns the task's outcome as an exit code.
pub(crate) async fn until_ended(
    remote: &Remote<'_>,
    id: &str,
    timeout: Option<Duration>,
    text: impl FnOnce(&Task) -> String,
) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("waiting for task {id}"));
    let ended =
        with_progress(&*remote.context.clock, &progress, wait(remote, id, timeout, &progress)).await?;
    let output = &remote.context.output;
    output.answer_as_is(&ended, || text(&ended))?;
    if ended.state == TaskState::Succeeded {
        return Ok(Exit::Done);
    }
    if !output.is_json {
        let why = ended.last_error.clone().or_else(|| ended.cause.as_ref().map(word)).unwrap_or_default();
        let failure = Failure::new(
            Exit::Unsuccessful,
            format!("task {id} is {}: {}", state(ended.state), visible(&why)),
        )
        .next(format!(
            "`weaver tasks show {id}` shows its attempts; `weaver tasks retry {id}` retries it as a new task"
        ));
        print_failure(&failure, false);
    }
    Ok(Exit::Unsuccessful)
}

/// Warns on standard error if no live worker serves the task: the wait would not end.
pub(crate) async fn warn_if_unserved(remote: &Remote<'_>, id: &str) {
    // Text output only, and best effort.
    if remote.context.output.is_json {
        return;
    }
    let Ok(explanation) = remote.client.explain(&remote.namespace, id).await else { return };
    if let Some(reason) = explanation.reasons.iter().find(|reason| reason.code == "no_worker") {
        eprintln!("no worker serves task {id}: {}", visible(&reason.message));
        eprintln!(
            "start a worker for it, or stop waiting with Ctrl-C; the task stays queued (`weaver tasks cancel {id}` cancels it)"
        );
    }
}

async fn wait(
    remote: &Remote<'_>,
    id: &str,
    timeout: Option<Duration>,
    progress: &Progress,
) -> Result<Task, Failure> {
    let clock = &remote.context.clock;
    let deadline = timeout.map(|timeout| clock.monotonic().saturating_add(timeout));
    loop {
        let left = deadline.map_or(HOLD, |deadline| deadline.0.saturating_sub(clock.monotonic().0));
        let waited = remote.client.wait(&remote.namespace, id, left.min(HOLD)).await?;
        if waited.ended {
            return Ok(waited.task);
        }
        progress.say(format!("task {id} is {}", state(waited.task.state)));
        if deadline.is_some_and(|deadline| clock.monotonic() >= deadline) {
            let message = format!("timed out: task {id} is {}", state(waited.task.state));
            return Err(
                Failure::new(Exit::Busy, message).next(format!("`weaver tasks explain {id}` shows why"))
            );
        }
    }
}

pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).ok_or_else(|| "give a number and a unit: 500ms, 30s, 5m, 12h or 30d".to_owned())
}
