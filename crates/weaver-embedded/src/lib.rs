//! The default store: a directory, nothing to install, nothing lost.
//!
//! What queues need to decide is in memory; everything that was acknowledged is in a `redb` file, written in
//! groups and synced before anybody hears of it (G1). Payloads, results, logs and finished tasks stay on
//! disk.
//!
//! ```text
//! ports ──jobs──▶ writer ──▶ engine ──▶ Work: index in memory + one table ──▶ codec ──▶ redb ──▶ medium (file)
//!    └──reads────────────────────────────────────────────── snapshot ─────────────────────┘
//! ```
//!
//! - [`EmbeddedStore`] is the handle and implements every port; start at `store.rs`, then `engine.rs` and
//!   `work/`.
//! - Only [`codec`] knows bytes: each value is versioned, and sealed with a checksum over its kind, key and
//!   body.
//! - `keys.rs` is the layout of the file. `directory.rs` is the layout of the directory.

pub mod codec;
mod directory;
mod engine;
mod error;
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
mod trouble;
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
