//! The default store: a directory, nothing to install, nothing lost.
//!
//! What queues need to decide is in memory; everything that was acknowledged is in a `redb` file, written in groups and
//! synced before anybody hears of it (G1). Payloads, results, logs and finished tasks stay on disk.
//!
//! ```text
//! ports ──▶ state in memory ──changes──▶ codec ──sealed values──▶ redb file
//!                 ▲                                                   │
//!                 └───────────── rebuilt when it is opened ───────────┘
//! ```
//!
//! Only [`codec`] knows bytes: each value is versioned, and sealed with a checksum over its table, key and body.

pub mod codec;
