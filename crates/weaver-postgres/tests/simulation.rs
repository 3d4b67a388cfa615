//! Simulated worlds on PostgreSQL: virtual time outside, a real server inside, checked against every
//! guarantee.

mod support;

use std::cell::RefCell;
use std::sync::Arc;

use support::bridge::{Place, bridge};
use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_testkit::sample::sample_unordered;
use weaver_testkit::simulation::simulate_on;

/// Worlds per test; the tests run in parallel.
const WORLDS: usize = 7;
/// Worlds that a CI run samples.
const SAMPLE: usize = 1;

fn hold(turn: usize) {
    let chosen = sample_unordered(&format!("worlds of turn {turn} on PostgreSQL"), WORLDS, SAMPLE);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be had");
    let mut broken = Vec::new();
    for seed in chosen.into_iter().map(|index| (turn * WORLDS + index) as u64) {
        let made: RefCell<Option<Place>> = RefCell::new(None);
        let outcome = simulate_on(seed, &|clock: Arc<dyn Clock>| -> Arc<dyn Store> {
            let (store, place) = bridge(runtime.handle(), clock);
            *made.borrow_mut() = Some(place);
            Arc::new(store)
        });
        if !outcome.violations.is_empty() {
            broken.push(outcome.to_string());
        }
        if let Some(place) = made.into_inner() {
            place.clean_up(runtime.handle());
        }
    }
    assert!(broken.is_empty(), "{} worlds broke promises:\n{}", broken.len(), broken.concat());
}

#[test]
fn every_promise_is_kept_in_worlds_0_to_6() {
    hold(0);
}

#[test]
fn every_promise_is_kept_in_worlds_7_to_13() {
    hold(1);
}

#[test]
fn every_promise_is_kept_in_worlds_14_to_20() {
    hold(2);
}

#[test]
fn every_promise_is_kept_in_worlds_21_to_27() {
    hold(3);
}

#[test]
fn every_promise_is_kept_in_worlds_28_to_34() {
    hold(4);
}

#[test]
fn every_promise_is_kept_in_worlds_35_to_41() {
    hold(5);
}

#[test]
fn every_promise_is_kept_in_worlds_42_to_48() {
    hold(6);
}

#[test]
fn every_promise_is_kept_in_worlds_49_to_55() {
    hold(7);
}
