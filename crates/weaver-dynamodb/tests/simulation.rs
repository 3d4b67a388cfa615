//! Short simulated worlds on the DynamoDB store, behind indexes that lag: every guarantee is checked. Every
//! other world has a faulty connection to DynamoDB, which loses requests and responses and is throttled.
//!
//! `WEAVER_DYNAMODB_SEED=7` runs one of them, `WEAVER_DYNAMODB_WORLDS=200` more of them, from 1,000 on. The
//! ordinary test run takes a sample of the 56 ([`sample_unordered`]).

mod support;

use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_testkit::sample::sample_unordered;
use weaver_testkit::simulation::simulate_short_on;

use support::stepped::stepped;

/// Worlds per test: several tests run beside each other.
const WORLDS: usize = 7;
/// How many of them the ordinary test run takes.
const SAMPLE: usize = 1;

fn hold(seeds: impl Iterator<Item = u64>) {
    let mut broken = Vec::new();
    for seed in seeds {
        let open =
            |clock: Arc<dyn Clock>| -> Arc<dyn Store> { Arc::new(stepped(clock, seed, seed % 2 == 1)) };
        let outcome = simulate_short_on(seed, &open);
        println!("seed {seed}: {} entries", outcome.entries);
        if !outcome.violations.is_empty() {
            broken.push(outcome.to_string());
        }
    }
    assert!(broken.is_empty(), "{} worlds broke promises:\n{}", broken.len(), broken.concat());
}

fn hold_turn(turn: usize) {
    let chosen = sample_unordered(&format!("worlds of turn {turn} on DynamoDB"), WORLDS, SAMPLE);
    hold(chosen.into_iter().map(|index| (turn * WORLDS + index) as u64));
}

#[test]
fn every_promise_is_kept_in_worlds_0_to_6() {
    let variable = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (variable("WEAVER_DYNAMODB_SEED"), variable("WEAVER_DYNAMODB_WORLDS")) {
        (Some(seed), _) => hold(seed..=seed),
        (None, Some(worlds)) => hold(1_000..1_000 + worlds),
        (None, None) => hold_turn(0),
    }
}

#[test]
fn every_promise_is_kept_in_worlds_7_to_13() {
    hold_turn(1);
}

#[test]
fn every_promise_is_kept_in_worlds_14_to_20() {
    hold_turn(2);
}

#[test]
fn every_promise_is_kept_in_worlds_21_to_27() {
    hold_turn(3);
}

#[test]
fn every_promise_is_kept_in_worlds_28_to_34() {
    hold_turn(4);
}

#[test]
fn every_promise_is_kept_in_worlds_35_to_41() {
    hold_turn(5);
}

#[test]
fn every_promise_is_kept_in_worlds_42_to_48() {
    hold_turn(6);
}

#[test]
fn every_promise_is_kept_in_worlds_49_to_55() {
    hold_turn(7);
}
