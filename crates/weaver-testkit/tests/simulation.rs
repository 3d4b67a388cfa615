//! A thousand worlds, each checked against every guarantee; and a seed is reproducible.

use std::panic::catch_unwind;
use std::sync::Arc;

use weaver_core::queue::memory::InMemoryQueue;
use weaver_testkit::simulation::{simulate, simulate_with_jumps_on};

/// Worlds per test: ten tests run in parallel.
const WORLDS: u64 = 100;

/// Runs a hundred worlds and fails with all violations.
fn hold(hundred: u64) {
    let mut broken = Vec::new();
    for seed in hundred * WORLDS..(hundred + 1) * WORLDS {
        match catch_unwind(|| simulate(seed)) {
            Ok(outcome) if outcome.violations.is_empty() => {}
            Ok(outcome) => broken.push(outcome.to_string()),
            Err(_) => {
                broken
                    .push(format!("seed {seed} panics; replay with `cargo xtask simulate --seed {seed}`\n"));
            }
        }
    }
    assert!(broken.is_empty(), "{} of {WORLDS} worlds broke promises:\n{}", broken.len(), broken.concat());
}

macro_rules! hundreds {
    ($($name:ident: $hundred:literal,)*) => {
        $(#[test]
        fn $name() {
            hold($hundred);
        })*
    };
}

hundreds! {
    every_promise_is_kept_in_worlds_0_to_99: 0,
    every_promise_is_kept_in_worlds_100_to_199: 1,
    every_promise_is_kept_in_worlds_200_to_299: 2,
    every_promise_is_kept_in_worlds_300_to_399: 3,
    every_promise_is_kept_in_worlds_400_to_499: 4,
    every_promise_is_kept_in_worlds_500_to_599: 5,
    every_promise_is_kept_in_worlds_600_to_699: 6,
    every_promise_is_kept_in_worlds_700_to_799: 7,
    every_promise_is_kept_in_worlds_800_to_899: 8,
    every_promise_is_kept_in_worlds_900_to_999: 9,
}

#[test]
fn the_same_seed_gives_the_same_world_entry_by_entry() {
    for seed in 0..40 {
        let (first, second) = (simulate(seed), simulate(seed));
        assert_eq!(first.trace_hash, second.trace_hash, "cargo xtask simulate --seed {seed}");
        assert_eq!(first.entries, second.entries);
    }
}

#[test]
fn another_seed_gives_another_world() {
    assert_ne!(simulate(1).trace_hash, simulate(2).trace_hash);
}

#[test]
fn every_guarantee_holds_while_the_wall_clock_jumps_by_hours() {
    let broken: String = (0..WORLDS)
        .map(|seed| simulate_with_jumps_on(seed, &|clock| Arc::new(InMemoryQueue::new(clock))))
        .filter(|outcome| !outcome.violations.is_empty())
        .map(|outcome| outcome.to_string())
        .collect();
    assert!(broken.is_empty(), "{broken}");
}
