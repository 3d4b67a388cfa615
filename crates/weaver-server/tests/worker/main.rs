//! The runtime's own worker tests, unchanged, over HTTP: with another harness, whose workers reach the store
//! through a real server on loopback.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod harness;

#[path = "../../../weaver-runtime/tests/worker/deploys.rs"]
mod deploys;
#[path = "../../../weaver-runtime/tests/worker/handlers.rs"]
mod handlers;
#[path = "../../../weaver-runtime/tests/worker/housekeeping.rs"]
mod housekeeping;
#[path = "../../../weaver-runtime/tests/worker/leases.rs"]
mod leases;
#[path = "../../../weaver-runtime/tests/worker/once.rs"]
mod once;
#[path = "../../../weaver-runtime/tests/worker/shutdown.rs"]
mod shutdown;
#[path = "../../../weaver-runtime/tests/worker/starts.rs"]
mod starts;
