//! The store in DynamoDB: seed 000's tables, shared by any number of processes and by clients that know only
//! the seed.
//!
//! Every change is a conditional write on the record's version (optimistic concurrency). DynamoDB has no
//! clock: lease expiry is detected by observers that see no renewal for the lease's whole TTL.
//!
//! ```text
//! ports/      the ports, call by call      ┐
//! foreign, poll   items of other clients   ├─▶ db (get, conditional write, query, transactions) ─▶ DynamoDB
//! gate, queues, leases, counts             ┘
//! overlay     corrects index pages that lag behind this process's own writes
//! ```
//!
//! `docs/ports-on-dynamodb.md` lists each call's requests, the condition behind its guarantee, and its cost.

mod activity;
mod check;
mod codec;
mod connect;
mod counts;
pub mod db;
mod error;
mod foreign;
mod gate;
mod ids;
mod keys;
mod leases;
mod overlay;
mod poll;
mod ports;
mod queues;
mod records;
mod store;
mod tables;
mod unreadable;

pub use check::check_records;
pub use connect::Connection;
pub use error::StoreError;
pub use store::{DynamoOptions, DynamoStore};
pub use tables::{CreatedTables, check_tables, ensure_tables, v1_tables};
