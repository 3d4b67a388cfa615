//! Requests, as data.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::db::{Index, Item, Table};

/// A conditional write of one item.
#[derive(Debug, Clone)]
pub struct Write {
    /// The table of the item.
    pub table: Table,
    /// Put, update, delete or check.
    pub action: WriteAction,
    /// Condition expression; `None`: unconditional.
    pub condition: Option<String>,
    /// Expression attribute names (`#name`).
    pub names: Vec<(&'static str, &'static str)>,
    /// Expression attribute values (`:value`).
    pub values: Vec<(&'static str, AttributeValue)>,
}

/// What a write does to its item.
#[derive(Debug, Clone)]
pub enum WriteAction {
    /// Replaces the whole item, or creates it.
    Put(Item),
    /// Changes the item, or creates it.
    Update {
        /// Partition and sort key of the item.
        key: Item,
        /// Update expression, such as `SET a = :a`.
        expression: String,
    },
    /// Removes the item with this key.
    Delete(Item),
    /// Checks the condition and changes nothing; only in transactions.
    Check(Item),
}

impl Write {
    fn new(table: Table, action: WriteAction) -> Self {
        Self { table, action, condition: None, names: Vec::new(), values: Vec::new() }
    }

    /// An unconditional put; add conditions with [`when`](Self::when).
    pub fn put(table: Table, item: Item) -> Self {
        Self::new(table, WriteAction::Put(item))
    }

    /// An update by expression; it creates the item if it is missing.
    pub fn update(table: Table, key: Item, expression: impl Into<String>) -> Self {
        Self::new(table, WriteAction::Update { key, expression: expression.into() })
    }

    /// A delete by key; succeeds if the item is missing.
    pub fn delete(table: Table, key: Item) -> Self {
        Self::new(table, WriteAction::Delete(key))
    }

    /// A condition check, for transactions only.
    pub fn check(table: Table, key: Item) -> Self {
        Self::new(table, WriteAction::Check(key))
    }

    /// Adds a condition; several are joined by `AND`.
    #[must_use]
    pub fn when(mut self, condition: impl AsRef<str>) -> Self {
        let condition = condition.as_ref();
        self.condition = Some(match self.condition {
            Some(other) => format!("({other}) AND ({condition})"),
            None => condition.to_owned(),
        });
        self
    }

    /// Defines an expression attribute name, for reserved words.
    #[must_use]
    pub fn name(mut self, stands: &'static str, name: &'static str) -> Self {
        self.names.push((stands, name));
        self
    }

    /// Defines an expression attribute value.
    #[must_use]
    pub fn value(mut self, stands: &'static str, value: AttributeValue) -> Self {
        self.values.push((stands, value));
        self
    }
}

/// A read of one partition, in key order.
#[derive(Debug, Clone)]
pub struct Query {
    /// The table, also if an index is read.
    pub table: Table,
    /// The index to read; `None`: the table itself, strongly consistent.
    pub index: Option<Index>,
    /// Value of the partition key.
    pub partition: String,
    /// Range of the sort key.
    pub range: Range,
    /// Ascending order of the sort key.
    pub forward: bool,
    /// Maximum number of items per page; `None`: DynamoDB's limit of 1 MB.
    pub limit: Option<u32>,
    /// Start key, from the previous page's [`Found::next`](crate::db::Found::next).
    pub start: Option<Item>,
}

/// A range of sort keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Range {
    /// Every key of the partition.
    All,
    /// Keys with this prefix.
    BeginsWith(String),
    /// Keys from the first to the second, both inclusive.
    Between(String, String),
    /// Keys greater than this one.
    After(String),
    /// Keys less than this one.
    Before(String),
}

impl Range {
    /// Whether a sort key is in the range.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::BeginsWith(prefix) => key.starts_with(prefix.as_str()),
            Self::Between(from, to) => (from.as_str()..=to.as_str()).contains(&key),
            Self::After(from) => key > from.as_str(),
            Self::Before(to) => key < to.as_str(),
        }
    }
}

impl Query {
    /// Reads a whole partition of a table, forward and without a limit.
    pub fn table(table: Table, partition: impl Into<String>) -> Self {
        let partition = partition.into();
        Self { table, index: None, partition, range: Range::All, forward: true, limit: None, start: None }
    }

    /// Reads a whole partition of an index, forward and without a limit.
    pub fn index(index: Index, partition: impl Into<String>) -> Self {
        Self { index: Some(index), ..Self::table(Table::Queue, partition) }
    }

    /// Restricts the sort keys that are read.
    #[must_use]
    pub fn range(self, range: Range) -> Self {
        Self { range, ..self }
    }

    /// Limits the number of items per page.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Reads in descending order of the sort key.
    #[must_use]
    pub fn backward(self) -> Self {
        Self { forward: false, ..self }
    }

    /// Continues after a page.
    #[must_use]
    pub fn after(self, start: Option<Item>) -> Self {
        Self { start, ..self }
    }
}
