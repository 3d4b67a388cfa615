//! What every Weaver store is held to. Dev-only: used from `tests/` directories.
//!
//! - [`conformance`]: one named test per guarantee and edge, run on any store a factory makes.
//! - [`fuzz`]: inputs from a kept corpus, changed, for the decoders that are written by hand.
//! - [`model`]: a reference model, compared with a store step by step over random commands.
//! - [`cancellation`]: on real time, how long until a cancelled handler is told.
//! - [`clock_jumps`]: what a store of this machine promises while its wall clock is set.
//! - [`faults`]: decorators that make any store fail, lag, repeat itself or lie about time.
//! - [`harness`]: a store under test with its clock, and workers on it.
//! - [`intercept`]: the one decorator of stores, which faults and simulation are written with.
//! - [`sample`]: the cases of a long enumeration that the gate runs.
//! - [`services`]: throw-away servers for the stores that need one.
//! - [`simulation`]: whole worlds of workers, producers and trouble on virtual time, checked against every
//!   guarantee.

pub mod cancellation;
pub mod clock_jumps;
pub mod conformance;
pub mod faults;
pub mod fuzz;
pub mod harness;
pub mod intercept;
pub mod model;
pub mod sample;
pub mod services;
pub mod simulation;
