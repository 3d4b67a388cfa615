//! Power cuts: what was acknowledged before one is there after it.
//!
//! A seed decides everything about a life. A failing one is replayed with
//! `WEAVER_POWER_SEED=<seed> cargo nextest run -p weaver-embedded --test power_cut replay`.

mod calls;
mod crowd;
mod life;
#[path = "../support/mod.rs"]
mod support;

use std::future::Future;

use life::{Plan, live};

const SEED_VARIABLE: &str = "WEAVER_POWER_SEED";
/// Lives per test: several tests run beside each other.
const LIVES: u64 = 40;
const CUTS_PER_LIFE: u32 = 8;
const PLAN: Plan = Plan { cuts: CUTS_PER_LIFE, disk_lies: false };

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime can be made").block_on(future)
}

fn replay(seed: u64) -> String {
    format!("{SEED_VARIABLE}={seed} cargo nextest run -p weaver-embedded --test power_cut replay")
}

fn hold(turn: u64) {
    let mut cuts = 0;
    for seed in turn * LIVES..(turn + 1) * LIVES {
        match run(live(seed, PLAN)) {
            Ok(count) => cuts += count,
            Err(broken) => panic!("seed {seed}: {broken}\nreplay with: {}", replay(seed)),
        }
    }
    assert_eq!(u64::from(cuts), LIVES * u64::from(CUTS_PER_LIFE));
}

#[test]
fn acknowledged_state_survives_every_cut_of_lives_0_to_39() {
    hold(0);
}

#[test]
fn acknowledged_state_survives_every_cut_of_lives_40_to_79() {
    hold(1);
}

#[test]
fn acknowledged_state_survives_every_cut_of_lives_80_to_119() {
    hold(2);
}

#[test]
fn acknowledged_state_survives_every_cut_of_lives_120_to_159() {
    hold(3);
}

#[test]
fn every_acknowledgement_to_several_clients_survives_the_cut() {
    for seed in 0..100 {
        if let Err(broken) = run(crowd::work_until_the_cut(seed)) {
            // Not replayable: the seed does not determine which calls share a batch.
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn replay_of_a_seed() {
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if let Err(broken) = run(live(seed, PLAN)) {
        panic!("seed {seed}: {broken}");
    }
}

#[test]
fn a_disk_that_lies_about_syncs_is_caught() {
    let caught = (0..10).filter(|seed| run(live(*seed, Plan { disk_lies: true, ..PLAN })).is_err()).count();
    assert!(caught >= 8, "only {caught} of 10 lives on a disk that does not sync were caught");
}
