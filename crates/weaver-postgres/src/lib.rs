//! Weaver's store for more than one machine: every port over PostgreSQL, which is the arbiter between nodes.
//!
//! ```text
//! port call ─▶ one statement (a function of the schema) ─▶ conditional on version and state ─▶ moves row
//!                │                                                                              │
//!   job_runs (live) ── the statement that ends a run moves it ──▶ job_run_history               ├─▶ changes (G10)
//!                                                                                               └─▶ counts
//! ```
//!
//! Rules stay in `weaver_core::lifecycle`: what is not on the hot path is read, decided there and written
//! back if its version still fits; the hot statements (`schema/claim.sql`, `schema/ends.sql`) are held to it
//! by the model test, and a trigger generated from core's table refuses whatever else.
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
