//! Whole worlds on virtual time, drawn from a seed: workers that crash, stall and lie about time, producers
//! that repeat themselves, an operator who interferes. What happened is written down where it was carried
//! out, and checked against G1–G11 by code that shares nothing with what it checks.
//!
//! ```text
//! seed ─▶ Scenario ─▶ world ─▶ History ─▶ checks ─▶ violations
//!                       │
//!   Worker ─ LocalSource ─ FaultyStore (Weather) ─ Line (writes the history) ─┐
//!   producers ───────────── FaultyStore ────────── Line ──────────────────────┼─▶ one store
//!   operator, reader of changes ────────────────── Line ──────────────────────┘
//! ```
//!
//! One thread, paused time, own dice: a seed always gives the same world ([`Outcome::trace_hash`]).

pub mod buggy;
pub mod checks;
mod clock;
mod elsewhere;
mod handler;
pub mod history;
mod life;
mod line;
mod rng;
pub mod scenario;
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
pub use elsewhere::{Elsewhere, OtherRuntime, TellTime, carry_out};
use history::History;
use scenario::Scenario;

/// Makes the store of a world, on the world's clock.
pub type MakeStore<'a> = &'a dyn Fn(Arc<dyn Clock>) -> Arc<dyn Store>;

/// What came out of a world.
#[derive(Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The same for every run of the seed.
    pub trace_hash: u64,
    /// How many things happened.
    pub entries: usize,
    /// Which promises were broken.
    pub violations: Vec<Violation>,
}

/// Runs the world of a seed on the store in memory.
pub fn simulate(seed: u64) -> Outcome {
    simulate_on(seed, &|clock| Arc::new(InMemoryQueue::new(clock)))
}

/// Runs the world of a seed on another store.
pub fn simulate_on(seed: u64, make_store: MakeStore<'_>) -> Outcome {
    Outcome::of(&run(seed, make_store))
}

/// Runs the world of a seed on a store whose wall clock is set by hours, forward and back, every three
/// seconds. The promises are the same and so is the time they are checked by: only what names an instant
/// follows the wall clock, so no task has an `expires_at`.
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

/// Runs the world of a seed on another store and tells everything.
///
/// # Panics
/// If no runtime can be had.
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
        writeln!(
            out,
            "seed {seed}: {count} broken promises; replay with `cargo xtask simulate --seed {seed}`"
        )?;
        self.violations.iter().take(SHOWN).try_for_each(|violation| writeln!(out, "  {violation}"))
    }
}
