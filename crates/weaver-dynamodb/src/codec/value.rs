//! Shorthands for making and reading attributes.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use weaver_core::time::Timestamp;

use crate::db::Item;

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

pub(crate) fn b(bytes: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// An instant in microseconds since 1970.
pub(crate) fn us(instant: Timestamp) -> AttributeValue {
    n(instant.as_micros())
}

/// An instant as seed 000 writes it: ISO 8601 with milliseconds and `Z`.
pub(crate) fn iso(instant: Timestamp) -> String {
    let exact = instant.to_string();
    // Always six fractional digits; seed 000 uses three.
    match exact.len().checked_sub(4) {
        Some(end) => format!("{}Z", &exact[..end]),
        None => exact,
    }
}

/// A key of two strings.
pub(crate) fn key(names: (&'static str, &'static str), partition: &str, sort: &str) -> Item {
    Item::from([(names.0.to_owned(), s(partition)), (names.1.to_owned(), s(sort))])
}

/// Typed access to an item's attributes; `None` if absent or of another type.
pub(crate) trait Attributes {
    fn text(&self, name: &str) -> Option<&str>;
    fn number(&self, name: &str) -> Option<u64>;
    fn bytes(&self, name: &str) -> Option<Bytes>;
    fn instant(&self, name: &str) -> Option<Timestamp>;
    fn flag(&self, name: &str) -> bool;
    fn put_text(&mut self, name: &str, text: impl Into<String>);
    fn put_number(&mut self, name: &str, number: u64);
}

impl Attributes for Item {
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_s().ok().map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_n().ok()?.parse().ok()
    }

    fn bytes(&self, name: &str) -> Option<Bytes> {
        self.get(name)?.as_b().ok().map(|blob| Bytes::copy_from_slice(blob.as_ref()))
    }

    fn instant(&self, name: &str) -> Option<Timestamp> {
        self.get(name)?.as_n().ok()?.parse().ok().map(Timestamp::from_micros)
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(AttributeValue::Bool(true)))
    }

    fn put_text(&mut self, name: &str, text: impl Into<String>) {
        self.insert(name.to_owned(), s(text));
    }

    fn put_number(&mut self, name: &str, number: u64) {
        self.insert(name.to_owned(), n(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_000_instants_have_milliseconds_and_a_z() {
        let instant = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(iso(instant), "2023-11-14T22:13:20.123Z");
    }
}
