//! The ports of a store besides [`Queue`]: narrow, dyn-safe traits without default methods. Convenience
//! methods for users are in [`QueueExt`](crate::queue::QueueExt).
//!
//! Each port is designed for DynamoDB first (get, conditional put, query by key): `docs/ports-on-dynamodb.md`
//! shows each call as requests.
//!
//! Methods carry their noun (`list_tasks`, `list_runners`), so that one value can implement all ports.

mod admin;
mod assignments;
mod documents;
mod journal;
mod runners;
mod tasks;
mod unreadable;

pub use admin::{Admin, Expect, PurgeRule, Purged, QueueInfo, QueueSettings};
pub use assignments::{AssignableRequest, Assignments};
pub use documents::{
    DOCUMENT_MAX_BYTES, DOCUMENT_WRITES_MAX, Document, DocumentKey, DocumentWrite, Documents, check_document,
    check_document_writes,
};
pub use journal::{
    APPEND_MAX_BYTES, ENTRY_MAX_BYTES, Entry, Journal, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore,
    check_entries,
};
pub use runners::{ALIVE_WITHIN, Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus, Runners};
pub use tasks::{
    Ahead, Counts, Cursor, GroupSummary, Order, Page, SCAN_MAX_DEFAULT, Scope, Selector, StateCounts,
    TaskFilter, TaskQuery, Tasks,
};

pub use unreadable::UnreadableRecords;

use crate::queue::Queue;

/// Every port at once: what the rest of Weaver is built on.
pub trait Store:
    Queue + Assignments + Tasks + Admin + Runners + Documents + Journal + UnreadableRecords
{
}

impl<T> Store for T where
    T: Queue + Assignments + Tasks + Admin + Runners + Documents + Journal + UnreadableRecords + ?Sized
{
}
