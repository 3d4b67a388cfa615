//! Output: results on standard output, as tables or JSON; everything else on standard error.

mod log;
mod paint;
mod progress;
mod size;
mod table;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;
use weaver::core::task::TaskState;

use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

pub(crate) use log::start_log;
pub(crate) use paint::{Paint, Tone};
pub(crate) use progress::{Progress, with_progress};
pub(crate) use size::bytes;
use table::visible_lines;
pub(crate) use table::{Table, visible};

const RETRYING: &str = "retrying";

/// How results are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) is_json: bool,
    pub(crate) paint: Paint,
    /// Columns of the terminal; `None`: not limited, for pipes.
    width: Option<usize>,
}

impl Output {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            is_json: config.text(keys::OUTPUT) == "json",
            paint: Paint::choose(config.text(keys::COLOR), io::stdout().is_terminal()),
            width: width(),
        }
    }

    /// Prints a result as JSON or text. Control characters in texts of tasks and servers are made visible.
    pub(crate) fn answer(
        &self,
        json: &impl Serialize,
        people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.answer_as_is(json, || visible_lines(&people(), self.paint))
    }

    /// The same for a task's own output, which a file gets verbatim; the caller handles control characters.
    pub(crate) fn answer_as_is(
        &self,
        json: &impl Serialize,
        people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let text = if self.is_json { pretty(json) + "\n" } else { people() };
        print(text.as_bytes())
    }

    pub(crate) fn render(&self, table: &Table) -> String {
        table.render(self.width, self.paint)
    }
}

/// Indented JSON. Raw JSON in it (payloads, results) stays verbatim.
fn pretty(json: &impl Serialize) -> String {
    serde_json::to_string_pretty(json).expect("answers have text keys and nothing that fails to be written")
}

/// A variant as it is in JSON: `timed_out`.
pub(crate) fn word(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// The word for a state in text output: `retry_scheduled` in JSON and storage reads "retrying".
pub(crate) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::RetryScheduled => RETRYING,
        state => state.as_str(),
    }
}

/// Comma-separated states as the API takes them; "retrying" becomes `retry_scheduled`.
pub(crate) fn stored_states(text: &str) -> String {
    text.split(',').map(|word| stored_state(word.trim())).collect::<Vec<_>>().join(",")
}

fn stored_state(word: &str) -> &str {
    if word == RETRYING { TaskState::RetryScheduled.as_str() } else { word }
}

/// An instant to the second.
pub(crate) fn instant(at: weaver::core::time::Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().map_or_else(String::new, |seconds| format!("{}Z", seconds.trim_end_matches('Z')))
}

/// Prints verbatim. A closed pipe (`| head`) is not a failure.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::new(Exit::Failed, format!("standard output: {error}"));
            Err(failure.next("check where standard output goes"))
        }
        _ => Ok(()),
    }
}

/// Prints a failure on standard error.
pub(crate) fn print_failure(failure: &Failure, is_json: bool) {
    let Failure { exit, message, next } = failure;
    let text = if is_json {
        let error = json!({"code": exit.name(), "exit": exit.code(), "message": message, "next": next});
        format!("{:#}\n", json!({ "error": error }))
    } else {
        let paint = Paint::choose("auto", io::stderr().is_terminal());
        let next = next.as_ref().map(|next| format!("{} {next}\n", paint.tone(Tone::Strong, "next:")));
        let text = format!("{} {message}\n{}", paint.tone(Tone::Bad, "error:"), next.unwrap_or_default());
        // It may contain a server's text.
        visible_lines(&text, paint)
    };
    // If standard error is closed, the exit code remains.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The terminal's width; `COLUMNS` without a terminal.
fn width() -> Option<usize> {
    if let Some((terminal_size::Width(columns), _)) = terminal_size::terminal_size_of(io::stdout()) {
        return Some(usize::from(columns));
    }
    std::env::var("COLUMNS").ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_retrying_and_both_words_select_the_stored_state() {
        assert_eq!(state(TaskState::RetryScheduled), "retrying");
        assert_eq!(state(TaskState::Dead), "dead");
        assert_eq!(stored_states("dead,retrying"), "dead,retry_scheduled");
        assert_eq!(stored_states("retry_scheduled, queued"), "retry_scheduled,queued");
    }
}
