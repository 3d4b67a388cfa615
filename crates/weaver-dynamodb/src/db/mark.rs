//! Whether a write that was refused had been done. An answer can get lost: the write is sent again, and its
//! condition, which its first sending made untrue, refuses it. So each write leaves a mark drawn at random,
//! and who is refused after a doubtful sending looks whether the mark is its own.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::db::{Act, Item, Table, Write, random_bits};

/// The attribute of the last write's mark.
const MARK: &str = "nonce";

/// A write's mark, and where it is to be found.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) table: Table,
    pub(super) key: Item,
    value: AttributeValue,
}

impl Mark {
    /// Whether an item has it.
    pub(super) fn is_on(&self, item: &Item) -> bool {
        item.get(MARK) == Some(&self.value)
    }
}

/// Puts a mark on a write; `None` if it needs none, as doing it twice is doing it once.
pub(super) fn put_on(write: &mut Write) -> Option<Mark> {
    let value = AttributeValue::S(format!("{:016x}", random_bits() as u64));
    let table = write.table;
    match &mut write.act {
        Act::Put(item) if write.condition.is_some() => {
            item.insert(MARK.to_owned(), value.clone());
            let (partition, sort) = table.key();
            let mut key = item.clone();
            key.retain(|name, _| name == partition || name == sort);
            Some(Mark { table, key, value })
        }
        Act::Update { key, expression } if table != Table::Runners => {
            let rest = expression.strip_prefix("SET ").map(|rest| format!(", {rest}"));
            *expression = format!("SET nonce = :nonce{}", rest.unwrap_or_else(|| format!(" {expression}")));
            write.values.push((":nonce", value.clone()));
            let key = key.clone();
            // What adds must not add twice.
            let again = "attribute_not_exists(nonce) OR nonce <> :nonce";
            write.condition = Some(match write.condition.take() {
                Some(condition) => format!("({condition}) AND ({again})"),
                None => again.to_owned(),
            });
            Some(Mark { table, key, value })
        }
        _ => None,
    }
}

/// Puts a mark on one member of a transaction: all of it is done, or none.
pub(super) fn put_on_one(writes: &mut [Write]) -> Option<Mark> {
    writes.iter_mut().find_map(put_on)
}
