//! `weaver tasks wait`: until a task has ended.

use std::time::Duration;

use clap::Args;
use weaver::core::task::TaskState;
use weaver_api::Task;

use crate::cli::remote::{Remote, RemoteArgs};
use crate::config::parse_span;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, complain, visible, with_progress, word};

/// How long the server may hold one question.
const HOLD: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver tasks wait 17\n  weaver tasks wait 17 --timeout 5m && echo done\n\n\
    Prints the result. Ends with 7 if the task is dead or cancelled, and with 4 if it has not ended in time."
)]
pub(crate) struct WaitArgs {
    /// Its id
    id: String,
    /// At most so long: 30s, 5m, 12h
    #[arg(long, value_name = "SPAN", value_parser = span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

pub(crate) async fn run(remote: &Remote<'_>, args: &WaitArgs) -> Result<Exit, Failure> {
    until_ended(remote, &args.id, args.timeout, result).await
}

/// What a task returned, as it is.
pub(crate) fn result(ended: &Task) -> String {
    let result = ended.result.as_ref().map(|result| result.as_str().to_owned());
    result.or_else(|| ended.result_hex.clone()).map_or_else(String::new, |result| visible(&result) + "\n")
}

/// Waits, prints what is to be said of the result, and ends as the task did.
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
        let failure =
            Failure::new(Exit::Unsuccessful, format!("task {id} is {}: {}", ended.state, visible(&why)))
                .next(format!(
                    "`weaver tasks show {id}` tells more; `weaver tasks retry {id}` runs it again"
                ));
        complain(&failure, false);
    }
    Ok(Exit::Unsuccessful)
}

/// Says on standard error if no worker that is alive would take the task: without one, waiting for it is
/// waiting for ever.
pub(crate) async fn say_if_unserved(remote: &Remote<'_>, id: &str) {
    // For people only, and a courtesy: what cannot be found out is not said.
    if remote.context.output.is_json {
        return;
    }
    let Ok(explanation) = remote.client.explain(&remote.namespace, id).await else { return };
    if let Some(reason) = explanation.reasons.iter().find(|reason| reason.code == "no_worker") {
        eprintln!("no worker serves task {id}: {}", visible(&reason.text));
        eprintln!(
            "start a worker for it, or stop waiting with Ctrl-C: the task stays (`weaver tasks cancel {id}` ends it)"
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
        progress.say(format!("task {id} is {}", waited.task.state));
        if deadline.is_some_and(|deadline| clock.monotonic() >= deadline) {
            let message = format!("task {id} has not ended in time: it is {}", waited.task.state);
            return Err(
                Failure::new(Exit::Busy, message).next(format!("`weaver tasks explain {id}` says why"))
            );
        }
    }
}

pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).ok_or_else(|| "give a number and a unit: 500ms, 30s, 5m, 12h or 30d".to_owned())
}
