//! Requests, as data.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::db::{Index, Item, Table};

/// A conditional write of one item.
#[derive(Debug, Clone)]
pub struct Write {
    /// Where.
    pub table: Table,
    /// What.
    pub act: Act,
    /// Only if.
    pub condition: Option<String>,
    /// What `#names` stand for.
    pub names: Vec<(&'static str, &'static str)>,
    /// What `:values` stand for.
    pub values: Vec<(&'static str, AttributeValue)>,
}

/// What a write does to its item.
#[derive(Debug, Clone)]
pub enum Act {
    /// Replaces it.
    Put(Item),
    /// Changes it; makes it if it is not there.
    Update {
        /// Its key.
        key: Item,
        /// How.
        expression: String,
    },
    /// Removes it.
    Delete(Item),
    /// Nothing: only in transactions, to check a condition.
    Check(Item),
}

impl Write {
    fn new(table: Table, act: Act) -> Self {
        Self { table, act, condition: None, names: Vec::new(), values: Vec::new() }
    }

    /// Replaces an item.
    pub fn put(table: Table, item: Item) -> Self {
        Self::new(table, Act::Put(item))
    }

    /// Changes an item.
    pub fn update(table: Table, key: Item, expression: impl Into<String>) -> Self {
        Self::new(table, Act::Update { key, expression: expression.into() })
    }

    /// Removes an item.
    pub fn delete(table: Table, key: Item) -> Self {
        Self::new(table, Act::Delete(key))
    }

    /// Checks an item.
    pub fn check(table: Table, key: Item) -> Self {
        Self::new(table, Act::Check(key))
    }

    /// Only if this holds, too.
    #[must_use]
    pub fn when(mut self, condition: impl AsRef<str>) -> Self {
        let condition = condition.as_ref();
        self.condition = Some(match self.condition {
            Some(other) => format!("({other}) AND ({condition})"),
            None => condition.to_owned(),
        });
        self
    }

    /// A name that is a reserved word.
    #[must_use]
    pub fn name(mut self, stands: &'static str, name: &'static str) -> Self {
        self.names.push((stands, name));
        self
    }

    /// A value.
    #[must_use]
    pub fn value(mut self, stands: &'static str, value: AttributeValue) -> Self {
        self.values.push((stands, value));
        self
    }
}

/// A read of one partition, in order.
#[derive(Debug, Clone)]
pub struct Query {
    /// Where.
    pub table: Table,
    /// Through which index; `None`: the table itself, strongly consistent.
    pub index: Option<Index>,
    /// The partition.
    pub partition: String,
    /// Which part of it.
    pub range: Range,
    /// Whether from the beginning.
    pub forward: bool,
    /// At most so many items.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub start: Option<Item>,
}

/// A part of a partition, by its sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Range {
    /// All of it.
    All,
    /// Keys that begin so.
    BeginsWith(String),
    /// Keys from this to that, both included.
    Between(String, String),
    /// Keys after this.
    After(String),
    /// Keys before this.
    Before(String),
}

impl Range {
    /// Whether a sort key lies in it.
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
    /// A partition of a table.
    pub fn table(table: Table, partition: impl Into<String>) -> Self {
        let partition = partition.into();
        Self { table, index: None, partition, range: Range::All, forward: true, limit: None, start: None }
    }

    /// A partition of an index.
    pub fn index(index: Index, partition: impl Into<String>) -> Self {
        Self { index: Some(index), ..Self::table(Table::Queue, partition) }
    }

    /// Only this part.
    #[must_use]
    pub fn range(self, range: Range) -> Self {
        Self { range, ..self }
    }

    /// At most so many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// From the end.
    #[must_use]
    pub fn backward(self) -> Self {
        Self { forward: false, ..self }
    }

    /// Going on where a page ended.
    #[must_use]
    pub fn after(self, start: Option<Item>) -> Self {
        Self { start, ..self }
    }
}
