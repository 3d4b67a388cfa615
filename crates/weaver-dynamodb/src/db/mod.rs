//! The operations of DynamoDB that the store uses: get, conditional write, query by key, small transactions.
//!
//! A trait, so that tests can inject faults: an index that lags, a response that is lost.

mod aws;
mod build;
mod meter;
mod nonce;
mod refusal;
mod request;
mod retry;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;
use weaver_core::error::Result;

pub use aws::AwsDb;
pub use meter::{Meter, Usage};
pub use request::{Query, Range, Write, WriteAction};
pub(crate) use retry::{TRIES_MAX, backoff, is_retryable, random_bits};

/// An item, or the key of one.
pub type Item = HashMap<String, AttributeValue>;

/// A table of the store; every name is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Tasks, in seed 000's layout.
    Queue,
    /// Workers, in seed 000's layout.
    Runners,
    /// All other items, in a layout of ours.
    Data,
}

impl Table {
    /// Every table, in the order of creation.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Runners, Self::Data];

    /// The name in DynamoDB; for the first two, seed 000's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "pm-runner-queue",
            Self::Runners => "pm-runner-runners",
            Self::Data => "weaver-data",
        }
    }

    /// Its partition key and its sort key, both strings.
    pub const fn key(self) -> (&'static str, &'static str) {
        match self {
            Self::Queue => ("namespace", "task_id"),
            Self::Runners => ("namespace", "runner_id"),
            Self::Data => ("pk", "sk"),
        }
    }
}

/// A global secondary index of the queue table; eventually consistent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Index {
    /// Seed 000's: by status, then creation time; projects all attributes.
    Status,
    /// Ours, sparse: waiting tasks by namespace and queue, then priority, due time and id.
    Ready,
}

impl Index {
    /// The index's name in DynamoDB.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status-index",
            Self::Ready => "ready-index",
        }
    }

    /// Its partition key and its sort key, both strings.
    pub const fn key(self) -> (&'static str, &'static str) {
        match self {
            Self::Status => ("status", "created_at"),
            Self::Ready => ("ready_pk", "ready_sk"),
        }
    }
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a write whose condition failed changed nothing"]
pub enum Written {
    /// It is stored. An update returns the whole new item, others an empty one.
    Applied(Item),
    /// Its condition does not hold; nothing changed.
    ConditionFailed,
    /// A concurrent transaction holds the item; nothing changed, and a retry may succeed.
    Conflict,
}

/// The outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transaction that was not applied changed nothing"]
pub enum Transacted {
    /// All writes are stored.
    Applied,
    /// Nothing is stored: the conditions of these members, by index, do not hold.
    ConditionFailed(Vec<usize>),
    /// Nothing is stored: a concurrent transaction holds one of the items, and a retry may succeed.
    Conflict,
}

/// One page of a query's result.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The items, in key order.
    pub items: Vec<Item>,
    /// Start key of the next page; `None`: there are no more.
    pub next: Option<Item>,
}

/// The part of DynamoDB's API that the store uses.
///
/// # Contract
/// - Reads of tables are strongly consistent; reads of an [`Index`] are not.
/// - Throttling, lost connections and unprocessed items are retried; if retries are exhausted, the call fails
///   with [`Error::Unavailable`](weaver_core::error::Error::Unavailable).
/// - A write is retried if its response was lost. Its nonce shows whether it had been applied, so that it is
///   applied once. If another client has written the item since, the result is `ConditionFailed` although the
///   write was applied.
#[async_trait]
pub trait Db: Send + Sync {
    /// Reads items by key, any number of them; returned in any order, missing ones omitted.
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>>;

    /// Makes one conditional write.
    async fn write(&self, write: Write) -> Result<Written>;

    /// Makes at most [`TRANSACTION_MAX`] conditional writes of different items, atomically.
    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted>;

    /// Reads one page of a partition.
    async fn query(&self, query: Query) -> Result<Found>;

    /// Removes items unconditionally, any number of them.
    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()>;

    /// Requests sent so far, and the capacity they consumed.
    fn usage(&self) -> Usage;
}

/// Maximum number of items in a transaction: older versions of DynamoDB Local allow no more.
pub const TRANSACTION_MAX: usize = 10;
