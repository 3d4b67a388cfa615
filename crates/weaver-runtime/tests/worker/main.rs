//! The worker, on the in-memory store and a clock that the tests move.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod deploys;
mod handlers;
mod harness;
mod housekeeping;
mod leases;
mod leasing;
mod once;
mod shutdown;
mod starts;
