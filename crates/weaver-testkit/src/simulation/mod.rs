//! Deterministic simulation on virtual time, drawn from a seed: workers that crash, stall and have skewed
//! clocks, producers that retry, an operator that interferes.
//!
//! The history is recorded where calls are executed, and checked against G1–G11 by code that shares nothing
//! with the code under test.
//!
//! ```text
//! seed ─▶ Scenario ─▶ world ─▶ History ─▶ checks ─▶ violations
//!                       │
//!   Worker ─ LocalSource ─ FaultyStore (LifeFaults) ─ RecordedStore ─┐
//!   producers ──────────── FaultyStore ────────────── RecordedStore ─┼─▶ one store
//!   operator, reader of changes ───────────────────── RecordedStore ─┘
//! ```
//!
//! One thread, paused time and a seeded generator: a seed always gives the same world
//! ([`Outcome::trace_hash`]).

pub mod buggy;
pub mod checks;
mod clock;
mod handler;
pub mod history;
mod recorded_store;
mod rng;
mod runtime_bridge;
pub mod scenario;
mod worker_life;
mod world;
mod zombie_worker;

use std::fmt;
use std::sync::Arc;

use weaver_core::clock::Clock;
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;

use crate::faults::JumpingClock;
pub use checks::Violation;
pub use clock::{START, SimClock};
use history::History;
pub use runtime_bridge::{BridgedRuntime, RuntimeBridge, SetTime, block_on_handle};
use scenario::Scenario;

/// Makes the store of a world, on the world's clock.
pub type MakeStore<'a> = &'a dyn Fn(Arc<dyn Clock>) -> Arc<dyn Store>;

/// Result of a simulated world.
#[derive(Debug)]
pub struct Outcome {
    /// Seed that replays the world.
    pub seed: u64,
    /// The same for every run of the seed.
    pub trace_hash: u64,
    /// Number of recorded events.
    pub entries: usize,
    /// Violated guarantees; empty if the world passed.
    pub violations: Vec<Violation>,
}

/// Runs the world of a seed on the in-memory store.
pub fn simulate(seed: u64) -> Outcome {
    simulate_on(seed, &|clock| Arc::new(InMemoryQueue::new(clock)))
}

/// Runs the world of a seed on another store.
pub fn simulate_on(seed: u64, make_store: MakeStore<'_>) -> Outcome {
    Outcome::of(&run(seed, make_store))
}

/// Runs the world of a seed on a store whose wall clock is set by hours, forward and back, every three
/// seconds. The guarantees are the same and so is the time they are checked by: only instants follow the wall
/// clock, so no task has an `expires_at`.
pub fn simulate_with_jumps_on(seed: u64, make_store: MakeStore<'_>) -> Outcome {
    let mut scenario = Scenario::draw(seed);
    let tasks = scenario.producers.iter_mut().flat_map(|producer| &mut producer.tasks);
    tasks.for_each(|task| task.expires_after = None);
    Outcome::of(&play(scenario, &|clock| make_store(Arc::new(JumpingClock::new(clock, seed)))))
}

/// Runs the short world of a seed on a store whose calls are slow.
pub fn simulate_short_on(seed: u64, make_store: MakeStore<'_>) -> Outcome {
    Outcome::of(&play(Scenario::draw_short(seed), make_store))
}

/// Runs the world of a seed on another store and returns its whole history.
///
/// # Panics
/// If no runtime can be created.
pub fn run(seed: u64, make_store: MakeStore<'_>) -> History {
    play(Scenario::draw(seed), make_store)
}

fn play(scenario: Scenario, make_store: MakeStore<'_>) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing");
    runtime.block_on(async {
        let clock = SimClock::begin();
        let store = make_store(Arc::new(clock));
        world::run(scenario, clock, store).await
    })
}

impl Outcome {
    fn of(history: &History) -> Self {
        let violations = checks::check(history);
        let (seed, trace_hash) = (history.scenario.seed, history.trace_hash());
        Self { seed, trace_hash, entries: history.entries.len(), violations }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        let (seed, count) = (self.seed, self.violations.len());
        writeln!(out, "seed {seed}: {count} violations; replay with `cargo xtask simulate --seed {seed}`")?;
        self.violations.iter().take(SHOWN).try_for_each(|violation| writeln!(out, "  {violation}"))
    }
}
