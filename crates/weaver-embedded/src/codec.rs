//! The binary format of values: compact, written by hand, and validated when it is decoded.
//!
//! ```text
//! value on disk = crc32(table, key, body) │ body          seal
//! body          = format version │ presence bits │ fields  spec, status, document, runner, …
//! ```
//!
//! No serialization framework: absent fields cost a bit, times are stored as differences, and the bytes of a
//! format version do not change when a type in core does. Golden tests pin the bytes. A change of the format
//! adds a version, and the old ones stay readable.
//!
//! Input is untrusted: a [`Reader`] never panics and never allocates more memory than its input is long, and
//! names are validated as on enqueue.

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

/// The format version that every body begins with.
pub const FORMAT_VERSION: u8 = 1;
