//! The merge queue (seed 003): changes wait in line, and a base branch moves only to a tree that was tested.
//!
//! ```text
//! domain/   MergeQueue, QueueEntry, their statuses and invariants. Pure
//! forge/    the port to where the branches are, and plain git behind it
//! config.rs the checks a base branch asks for
//! engine/   documents, effects, events: what makes plans come true, over any store
//! keys.rs   the key a node signs links of the chain with, and the keys that are trusted
//! check/    `weaver.check`, the task that runs a check
//! plan/     (queue, observations, policy, now) ─▶ the queue as it will be, and actions. Pure
//! ```

pub mod check;
pub mod config;
pub mod domain;
pub mod engine;
pub mod forge;
pub mod keys;
pub mod notify;
pub mod plan;
