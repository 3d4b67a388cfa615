//! Weaver's store in DynamoDB: seed 000's tables, shared by any number of processes and by clients that know
//! only the seed.
//!
//! ```text
//! ports/      the ports, call by call           ┐
//! foreign     items that others write           ├─▶ db (get, conditional write, query, small transactions) ─▶ DynamoDB
//! gate, queues, leases, counts                  ┘
//! overlay     what an index that lags should show, as far as this process knows
//! ```
//!
//! `docs/ports-on-dynamodb.md` shows each call as requests, with the condition that keeps its guarantee and
//! what it costs.

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
pub use tables::{Made, check_tables, ensure_tables, v1_tables};
