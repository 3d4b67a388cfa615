//! The ports, call by call. `docs/ports-on-dynamodb.md` lists the requests of each.

mod admin;
mod assignments;
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

/// Maximum number of concurrent requests of one call.
pub(crate) const CONCURRENCY_MAX: usize = 24;
