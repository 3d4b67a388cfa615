//! The merge queue (seed 003): a base branch moves only to a tree whose checks passed.
//!
//! Each change is merged onto the tip of the base as a *merge candidate*. Its checks run on the candidate,
//! and the base moves from the tested parent to the tested commit by compare-and-set. An entry that
//! conflicts or fails its checks is *ejected*; a check that fails and passes when repeated is *flaky*.
//!
//! Candidates are serial: there are no speculative builds, and only the head of a queue is processed.
//!
//! ```text
//! domain/   MergeQueue, QueueEntry, their statuses and invariants. Pure
//! forge/    the port to where the branches are, and plain git behind it
//! config.rs the checks a base branch requires
//! engine/   executes plans over any store: documents, effects, events
//! keys.rs   the signing key of a node, and the keys it trusts
//! check/    `weaver.check`, the task that runs a check
//! plan/     (queue, observations, policy, now) ─▶ the next queue, and actions. Pure
//! ```

pub mod check;
pub mod config;
pub mod domain;
pub mod engine;
pub mod forge;
pub mod keys;
pub mod notify;
pub mod plan;
