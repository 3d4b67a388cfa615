//! Encodes records as items, and decodes them.

pub(crate) mod foreign;
pub(crate) mod record;
pub(crate) mod texts;
pub(crate) mod value;

use weaver_core::error::Error;

/// The error of an item that cannot be decoded.
pub(crate) fn damaged(what: impl Into<String>) -> Error {
    let remedy = "another program or a newer Weaver wrote it; `weaver store check` names the item".to_owned();
    Error::Damaged { what: what.into(), remedy }
}
