//! How values are written: compact, by hand, and checked on the way back.
//!
//! ```text
//! value on disk = crc32(table, key, body) │ body          seal
//! body          = format version │ presence bits │ fields  spec, status, document, runner, …
//! ```
//!
//! By hand rather than with a serialisation framework: absent fields cost a bit, times cost a difference, and
//! the bytes of a version never change because a type in the core did. Golden tests hold the bytes fast;
//! whoever needs others adds a version and keeps reading the old one.
//!
//! Nothing read is trusted: a [`Reader`] never panics and never reserves more memory than its input is long,
//! and names go through the same checks as when they entered.

mod bytes;
mod document;
mod journal;
mod queue;
mod runner;
mod seal;
mod spec;
mod status;
mod undecodable;
mod unique;

pub use self::bytes::{Reader, Writer};
pub use self::document::{StoredDocument, decode_document, encode_document};
pub use self::journal::{StoredEntry, decode_entry, encode_entry};
pub use self::queue::{StoredGroup, StoredQueue, decode_group, decode_queue, encode_group, encode_queue};
pub use self::runner::{StoredDirective, decode_directive, decode_runner, encode_directive, encode_runner};
pub use self::seal::{Damage, SEAL_BYTES, seal, unseal};
pub use self::spec::{decode_spec, encode_spec};
pub use self::status::{encode_status, record_from, state_of};
pub use self::undecodable::{Defect, Undecodable};
pub use self::unique::{StoredUniqueKey, decode_unique_key, encode_unique_key};

/// The format version every body begins with today.
pub const FORMAT_VERSION: u8 = 1;
