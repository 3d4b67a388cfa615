//! Records as items and back.

pub(crate) mod foreign;
pub(crate) mod record;
pub(crate) mod texts;
pub(crate) mod value;

use weaver_core::error::Error;

/// An item that cannot be read.
pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { what: what.into(), way_out: "look at the item; restore it, or delete it".to_owned() }
}
