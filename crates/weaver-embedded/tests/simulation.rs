//! Simulated worlds on the embedded store, without a writer thread: every guarantee is checked, and a seed
//! replays exactly.

mod support;

use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_testkit::simulation::{Outcome, simulate_on, simulate_with_jumps_on};

use support::ram::RamMedium;

/// Worlds per test: several tests run beside each other.
const WORLDS: u64 = 25;

fn simulate(seed: u64) -> Outcome {
    simulate_on(seed, &make_store)
}

fn make_store(clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let medium = Arc::new(RamMedium::new());
    let options = EmbeddedOptions::default();
    Arc::new(EmbeddedStore::open_on(medium, clock, options, false).expect("an empty medium opens"))
}

fn hold(turn: u64) {
    let mut broken = Vec::new();
    for seed in turn * WORLDS..(turn + 1) * WORLDS {
        let outcome = simulate(seed);
        if !outcome.violations.is_empty() {
            broken.push(outcome.to_string());
        }
    }
    assert!(broken.is_empty(), "{} of {WORLDS} worlds broke promises:\n{}", broken.len(), broken.concat());
}

#[test]
fn every_promise_is_kept_in_worlds_0_to_24() {
    hold(0);
}

#[test]
fn every_promise_is_kept_in_worlds_25_to_49() {
    hold(1);
}

#[test]
fn every_promise_is_kept_in_worlds_50_to_74() {
    hold(2);
}

#[test]
fn every_promise_is_kept_in_worlds_75_to_99() {
    hold(3);
}

#[test]
fn the_same_seed_gives_the_same_world_entry_by_entry() {
    for seed in 0..5 {
        let (first, second) = (simulate(seed), simulate(seed));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        assert_eq!(first.entries, second.entries);
    }
}

#[test]
fn every_guarantee_holds_while_the_wall_clock_jumps_by_hours() {
    for seed in 0..WORLDS {
        let outcome = simulate_with_jumps_on(seed, &make_store);
        assert!(outcome.violations.is_empty(), "{outcome}");
    }
}
