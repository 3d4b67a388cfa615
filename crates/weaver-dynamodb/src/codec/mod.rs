//! Records as items and back.

pub(crate) mod foreign;
pub(crate) mod record;
pub(crate) mod texts;
pub(crate) mod value;

use weaver_core::error::Error;

/// An item that cannot be read.
pub(crate) fn damaged(what: impl Into<String>) -> Error {
    let way_out =
        "another program or a newer Weaver wrote it; `weaver store check` names the item".to_owned();
    Error::Damaged { what: what.into(), way_out }
}
