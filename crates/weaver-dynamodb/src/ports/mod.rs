//! The ports, call by call. `docs/ports-on-dynamodb.md` shows each as requests.

mod admin;
mod choose;
mod commit;
mod documents;
mod enqueue;
mod journal;
mod lease;
mod list;
mod overdue;
mod purge;
mod queue;
mod ready;
mod renew;
mod runners;
mod tasks;
mod unreadable;
mod wait;

pub(crate) use documents::read_document;
pub(crate) use runners::read_runner;

/// Requests of one call that are under way at once.
pub(crate) const AT_ONCE: usize = 24;
