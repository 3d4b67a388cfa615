//! The names of seed 002 resolve at its paths.

use weaver_core::lease::TaskLease;
use weaver_core::queue::memory::InMemoryQueueState;
use weaver_core::task::TaskEnvelope;

#[test]
fn the_names_of_seed_002_resolve_and_a_lease_carries_the_envelope() {
    assert!(std::any::type_name::<InMemoryQueueState>().ends_with("::InMemoryQueueState"));
    let _: fn(&TaskLease) -> &TaskEnvelope = |leased| &leased.record.spec.envelope;
}
