//! Test kit for Weaver stores and workers. Dev-only: used from `tests/` directories.
//!
//! - [`fuzz`]: mutated inputs from a corpus, for the hand-written decoders.
//! - [`model`]: a reference model, compared with a store step by step over random commands.
//! - [`cancellation`]: cancellation latency, in real time.
//! - [`clock_jumps`]: guarantees of a local store while the wall clock is set.
//! - [`faults`]: decorators that inject errors, delays, duplicates, stale reads and clock skew.
//! - [`harness`]: a store under test with its clock, and workers on it.
//! - [`intercept`]: the store decorator that faults and simulation are built on.
//! - [`sample`]: the sampled cases of a long enumeration.
//! - [`services`]: throw-away servers for the stores that need one.
//! - [`simulation`]: deterministic simulation of workers, producers and faults on virtual time, checked
//!   against every guarantee.

pub mod cancellation;
pub mod clock_jumps;
pub mod faults;
pub mod fuzz;
pub mod harness;
pub mod intercept;
pub mod model;
pub mod sample;
pub mod services;
pub mod simulation;
