//! Makes retried conditional writes idempotent.
//!
//! If the response to a write is lost, the retry fails on its condition, which the first attempt made untrue.
//! So each write stores a random nonce; if the condition fails after an ambiguous attempt, the nonce tells
//! whether the write had been applied.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::db::{Item, Table, Write, WriteAction, random_bits};

/// The attribute of the last write's nonce.
const NONCE: &str = "nonce";

/// A write's nonce, and the item that it is stored in.
#[derive(Debug, Clone)]
pub(super) struct Nonce {
    pub(super) table: Table,
    pub(super) key: Item,
    value: AttributeValue,
}

impl Nonce {
    /// Whether an item has this nonce.
    pub(super) fn matches(&self, item: &Item) -> bool {
        item.get(NONCE) == Some(&self.value)
    }
}

/// Adds a nonce to a write; `None` if the write is idempotent anyway.
pub(super) fn attach(write: &mut Write) -> Option<Nonce> {
    let value = AttributeValue::S(format!("{:016x}", random_bits() as u64));
    let table = write.table;
    match &mut write.action {
        WriteAction::Put(item) if write.condition.is_some() => {
            item.insert(NONCE.to_owned(), value.clone());
            let (partition, sort) = table.key();
            let mut key = item.clone();
            key.retain(|name, _| name == partition || name == sort);
            Some(Nonce { table, key, value })
        }
        WriteAction::Update { key, expression } if table != Table::Runners => {
            let rest = expression.strip_prefix("SET ").map(|rest| format!(", {rest}"));
            *expression = format!("SET nonce = :nonce{}", rest.unwrap_or_else(|| format!(" {expression}")));
            write.values.push((":nonce", value.clone()));
            let key = key.clone();
            // An `ADD` must not be applied twice.
            let again = "attribute_not_exists(nonce) OR nonce <> :nonce";
            write.condition = Some(match write.condition.take() {
                Some(condition) => format!("({condition}) AND ({again})"),
                None => again.to_owned(),
            });
            Some(Nonce { table, key, value })
        }
        _ => None,
    }
}

/// Adds a nonce to one member of a transaction, which is enough as it is atomic.
pub(super) fn attach_to_one(writes: &mut [Write]) -> Option<Nonce> {
    writes.iter_mut().find_map(attach)
}
