//! What the store asks of DynamoDB, and nothing else of it: get, conditional write, query by key, small
//! transactions. A trait, so that whoever tests the store can stand in between (an index that lags, an answer
//! that is lost).

mod aws;
mod build;
mod mark;
mod meter;
mod patience;
mod request;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::HashMap;
use weaver_core::error::Result;

pub use aws::AwsDb;
pub use meter::{Meter, Usage};
pub(crate) use patience::{pause, random_bits};
pub use request::{Act, Query, Range, Write};

/// An item, or the key of one.
pub type Item = HashMap<String, AttributeValue>;

/// The three tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Seed 000's queue.
    Queue,
    /// Seed 000's runners.
    Runners,
    /// Everything else.
    Data,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Runners, Self::Data];

    /// Its name, as seed 000 has it.
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

/// The indexes of the queue table. Both lag behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Index {
    /// Seed 000's: by status, then time of creation; all attributes.
    Status,
    /// Ours, sparse: waiting tasks by namespace and queue, then priority, due time and id.
    Ready,
}

impl Index {
    /// Its name.
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

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a write that was refused changed nothing"]
pub enum Written {
    /// It is stored. An update answers the whole item as it is now.
    Done(Item),
    /// Its condition does not hold.
    Refused,
    /// A transaction has the item right now.
    Busy,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a transaction that was refused changed nothing"]
pub enum Transacted {
    /// All of it is stored.
    Done,
    /// Nothing of it is: these members' conditions do not hold.
    Refused(Vec<usize>),
    /// Nothing of it is: another transaction has one of the items right now.
    Busy,
}

/// Part of what a query finds.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Where to go on, if there may be more.
    pub next: Option<Item>,
}

/// DynamoDB, as far as the store uses it.
///
/// # Contract
/// - Reads of tables are strongly consistent; reads of an [`Index`] are not.
/// - Throttling, lost connections and unprocessed items are retried; what is still missing then is
///   [`Error::Unavailable`](weaver_core::error::Error::Unavailable).
/// - A write is sent again after its answer got lost. If it had been done it is recognised by its mark and is
///   done once, unless somebody else has written the item since: then it is refused, though it was done.
#[async_trait]
pub trait Db: Send + Sync {
    /// Reads items by key, in any number and order; those that are not there are left out.
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>>;

    /// Makes one conditional write.
    async fn write(&self, write: Write) -> Result<Written>;

    /// Makes at most [`TRANSACTION_MAX`] conditional writes of different items, or none of them.
    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted>;

    /// Reads one page of a partition.
    async fn query(&self, query: Query) -> Result<Found>;

    /// Removes items, whatever they are.
    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()>;

    /// What has been asked so far, and what it cost.
    fn usage(&self) -> Usage;
}

/// The most items of one transaction: older local jars allow no more.
pub const TRANSACTION_MAX: usize = 10;
