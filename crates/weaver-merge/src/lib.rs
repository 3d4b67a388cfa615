//! The merge queue (seed 003): changes wait in line, and a base branch moves only to a tree that was tested.
//!
//! ```text
//! domain/   MergeQueue, QueueEntry, their statuses and invariants. Pure
//! plan/     (queue, observations, policy, now) ─▶ the queue as it will be, and actions. Pure
//! ```

pub mod domain;
pub mod plan;
