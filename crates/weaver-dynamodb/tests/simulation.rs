//! Worlds of the simulation on the DynamoDB store, call by call, held to every guarantee. A world is some thousand requests, half a
//! minute: the gate has two; `WEAVER_DYNAMODB_WORLDS=50` and the test's own binary run more.

mod support;

use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_testkit::simulation::simulate_on;

use support::stepped::Stepped;

/// Worlds per test: two tests run beside each other.
const WORLDS: u64 = 1;

fn hold(turn: u64) {
    let worlds = std::env::var("WEAVER_DYNAMODB_WORLDS").ok().and_then(|text| text.parse().ok());
    let worlds: u64 = worlds.map_or(WORLDS, |worlds: u64| worlds.div_ceil(2));
    let mut broken = Vec::new();
    for seed in turn * worlds..(turn + 1) * worlds {
        let outcome =
            simulate_on(seed, &|clock: Arc<dyn Clock>| -> Arc<dyn Store> { Arc::new(Stepped::open(clock)) });
        println!("seed {seed}: {} entries", outcome.entries);
        if !outcome.violations.is_empty() {
            broken.push(outcome.to_string());
        }
    }
    assert!(broken.is_empty(), "{} of {worlds} worlds broke promises:\n{}", broken.len(), broken.concat());
}

#[test]
fn every_promise_is_kept_in_the_first_worlds() {
    hold(0);
}

#[test]
fn every_promise_is_kept_in_the_worlds_after_them() {
    hold(1);
}
