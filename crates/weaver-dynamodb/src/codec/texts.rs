//! Large values: payloads, results, errors and attempts above 1 KiB are items of their own, written before
//! the item that refers to them. Every write pays for the task's whole item, and `status-index` copies it.
//!
//! Each has a random name, so that of two racing writers the loser cannot overwrite what the winner refers
//! to.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;

use crate::codec::value::{Attributes, b, s};
use crate::db::Item;

/// Largest value stored in the task's own item, in bytes.
pub(crate) const INLINE_MAX_BYTES: usize = 1024;

/// The attribute that says where the large values are.
const REFERENCES: &str = "texts";

/// Large values by their names in the record.
pub(crate) type Texts = BTreeMap<&'static str, Bytes>;

/// The large values a record may have.
pub(crate) const NAMES: [&str; 4] = ["payload", "result", "error", "attempts"];

/// References to an item's large values: name and sort key of each.
pub(crate) fn references(item: &Item) -> Vec<(&'static str, String)> {
    let Some(AttributeValue::M(map)) = item.get(REFERENCES) else { return Vec::new() };
    NAMES.into_iter().filter_map(|name| Some((name, map.get(name)?.as_s().ok()?.clone()))).collect()
}

/// Stores references to large values in an item.
pub(crate) fn refer(item: &mut Item, references: &[(&'static str, String)]) {
    item.remove(REFERENCES);
    if !references.is_empty() {
        let map = references.iter().map(|(name, sort)| ((*name).to_owned(), s(sort.clone()))).collect();
        item.insert(REFERENCES.to_owned(), AttributeValue::M(map));
    }
}

/// Bytes as an attribute. Attributes cannot be empty, so the number 0 stands for no bytes.
pub(crate) fn bytes_attribute(bytes: &[u8]) -> AttributeValue {
    if bytes.is_empty() { AttributeValue::N("0".to_owned()) } else { b(bytes) }
}

/// Decodes what [`bytes_attribute`] made.
pub(crate) fn bytes_of(item: &Item, name: &str) -> Option<Bytes> {
    match item.get(name)? {
        AttributeValue::N(_) => Some(Bytes::new()),
        _ => item.bytes(name),
    }
}
