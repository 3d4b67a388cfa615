//! The default store: durable, in a directory of the local machine, with nothing to install.
//!
//! Every acknowledged write is in a `redb` file. Group commit: concurrent calls share a transaction, which is
//! fsynced before any caller is answered (G1).
//!
//! What scheduling needs is indexed in memory. Payloads, results, logs and finished tasks stay on disk.
//!
//! ```text
//! ports ─requests─▶ writer ──▶ engine ──▶ Work: index + one table ──▶ codec ──▶ redb ──▶ medium (file)
//!    └──reads────────────────────────────────────── snapshot ─────────────────────┘
//! ```
//!
//! - [`EmbeddedStore`] is the handle and implements every port; start at `store.rs`, then `engine.rs` and
//!   `work/`.
//! - [`codec`] is the binary format: each value has a format version and a checksum over its kind, key and
//!   body.
//! - `keys.rs` is the layout of the file, `directory.rs` that of the directory.

pub mod codec;
mod directory;
mod engine;
mod error;
mod fault;
mod guard;
mod keys;
mod load;
mod maintain;
mod medium;
mod memory;
mod options;
mod ports;
mod private;
mod progress;
mod rows;
mod store;
mod unreadable;
mod work;
mod writer;

pub use directory::FORMAT;
pub use error::StoreError;
pub use maintain::{CheckReport, Exported, Imported};
pub use medium::Medium;
pub use options::EmbeddedOptions;
pub use progress::{Listener, Opening};
pub use store::EmbeddedStore;
