//! How commands talk: answers on standard output, as tables or JSON; everything else on standard error.

mod log;
mod paint;
mod progress;
mod size;
mod table;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};

pub(crate) use log::start_log;
pub(crate) use paint::{Paint, Tone};
pub(crate) use progress::{Progress, with_progress};
pub(crate) use size::bytes;
use table::visible_lines;
pub(crate) use table::{Table, visible};

/// How answers are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) is_json: bool,
    pub(crate) paint: Paint,
    /// Columns of the terminal; `None`: as wide as it comes, for programs that read on.
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

    /// Prints an answer: for programs, or for people. Texts of tasks and servers in it cannot play with the
    /// terminal.
    pub(crate) fn answer(
        &self,
        json: &impl Serialize,
        people: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.answer_as_is(json, || visible_lines(&people(), self.paint))
    }

    /// The same for what a task made, which a file gets as it is; whoever makes the text looks after
    /// terminals.
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

/// JSON as people indent it. Text that already is JSON (payloads, results) stays as it is.
fn pretty(json: &impl Serialize) -> String {
    serde_json::to_string_pretty(json).expect("answers have text keys and nothing that fails to be written")
}

/// A variant as programs write it: `retry_scheduled`.
pub(crate) fn word(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// An instant to the second.
pub(crate) fn instant(at: weaver::core::time::Timestamp) -> String {
    let text = at.to_string();
    text.split('.').next().map_or_else(String::new, |seconds| format!("{}Z", seconds.trim_end_matches('Z')))
}

/// Prints as it is. A reader that went away (`| head`) is no failure of the command.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let failure = Failure::new(Exit::Failed, format!("standard output: {error}"));
            Err(failure.next("check where the output goes"))
        }
        _ => Ok(()),
    }
}

/// Says on standard error why a command did not do what it was asked.
pub(crate) fn complain(failure: &Failure, is_json: bool) {
    let Failure { exit, message, next } = failure;
    let text = if is_json {
        let error = json!({"code": exit.name(), "exit": exit.code(), "message": message, "next": next});
        format!("{:#}\n", json!({ "error": error }))
    } else {
        let paint = Paint::choose("auto", io::stderr().is_terminal());
        let next = next.as_ref().map(|next| format!("{} {next}\n", paint.tone(Tone::Strong, "next:")));
        let text = format!("{} {message}\n{}", paint.tone(Tone::Bad, "error:"), next.unwrap_or_default());
        // What a server says is in it.
        visible_lines(&text, paint)
    };
    // With nobody left to tell, the exit code says it.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// The terminal's width; `COLUMNS` stands in where there is none.
fn width() -> Option<usize> {
    if let Some((terminal_size::Width(columns), _)) = terminal_size::terminal_size_of(io::stdout()) {
        return Some(usize::from(columns));
    }
    std::env::var("COLUMNS").ok()?.parse().ok()
}
