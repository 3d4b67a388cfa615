//! The store for several nodes: every port over PostgreSQL, which arbitrates between them.
//!
//! ```text
//! port call ─▶ one statement (an SQL function) ─▶ conditional write on version and state ─▶ row in moves
//!                │                                                                        │
//!   tasks (written once)   ready ──claim──▶ leases ──finish──▶ ended                      ├─▶ changes (G10)
//!                            ▲─────retry──────┘                                           └─▶ counts
//! ```
//!
//! What a task was enqueued with is a row of `tasks`; where it is follows from `ended`, `leases` and `ready`,
//! in this order (`schema/tables.sql`). Seed 004's names are views: a *run* in this crate is one task as they
//! show it.
//!
//! Leasing is `SELECT … FOR UPDATE SKIP LOCKED` (`schema/pick.sql`, `schema/claim.sql`), so that lease calls do
//! not wait for each other. A serial key and a conditional write on a document take a transaction
//! level advisory lock.
//!
//! Fencing: an end applies only if the row still has the version the lease was granted with. A worker whose
//! lease expired therefore writes nothing.
//!
//! The rules stay in `weaver_core::lifecycle`. Transitions off the hot path are read, decided there and
//! written with optimistic concurrency. The hot statements (`schema/claim.sql`, `schema/ends.sql`) are held
//! to the same rules by the model test, and triggers generated from core's tables refuse any other write.
//!
//! Leader election is a document whose version is the epoch (ports `Documents`): a leader's transitions are
//! committed in a transaction that holds `FOR SHARE` on it.
//!
//! Time is the server's, read through one function (`schema/time.sql`).

mod check;
mod connections;
mod error;
mod hints;
mod names;
mod options;
mod ports;
mod queue;
mod row;
mod schema;
mod sql;
mod store;
mod types;
mod unreadable;

pub use error::OpenError;
pub use options::{PostgresOptions, Redacted};
pub use queue::WakeUp;
pub use schema::{
    GuardTrigger, Migration, Migrations, SCHEMA_VERSION, WeakGuard, allowed_moves, guard_triggers, migrations,
};
pub use store::PostgresStore;
