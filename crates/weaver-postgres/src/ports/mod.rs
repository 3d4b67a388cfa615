//! The ports other than `Queue`.

mod admin;
mod assignments;
mod documents;
mod journal;
mod list;
mod log_files;
mod runners;
mod tasks;
mod unreadable;

pub(crate) use documents::DocumentTables;
pub(crate) use journal::StreamTables;
pub(crate) use log_files::LogStatements;
pub(crate) use runners::runner;

use weaver_core::error::{Invalid, Problem};
use weaver_core::ports::{Cursor, Expect};

/// The expectation of a conditional write, as the SQL functions take it.
fn expectation(expect: Expect) -> (&'static str, Option<i64>) {
    match expect {
        Expect::Anything => ("anything", None),
        Expect::Absent => ("absent", None),
        Expect::Version(version) => ("version", Some(version.0 as i64)),
    }
}

/// The name after which the page starts; the empty text sorts before every name.
fn after(cursor: Option<Cursor>) -> Result<String, Invalid> {
    let Some(Cursor(text)) = cursor else { return Ok(String::new()) };
    match weaver_core::name::name_problem(&text) {
        None => Ok(text),
        Some(_) => Err(Invalid::new("cursor", Problem::UnknownCursor)),
    }
}

/// Truncates a page that was read with one extra item; returns the cursor of the next.
fn cut<T>(items: &mut Vec<T>, limit: u32, name: impl Fn(&T) -> String) -> Option<Cursor> {
    if items.len() <= limit as usize {
        return None;
    }
    items.truncate(limit as usize);
    items.last().map(|last| Cursor(name(last)))
}
