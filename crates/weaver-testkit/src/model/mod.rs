//! The reference model: a deliberately naive store, compared with a real one step by step on random walks.
//!
//! ```text
//! steps() ─▶ [Step, …] ─▶ check ─┬─▶ store ──▶ answer ─┐
//!            (shrunk by           │                      ├─ equal after every step, or a message that says how
//!             proptest)           └─▶ Reference ▶ answer ┘  they differ
//! ```
//!
//! The model has no transition rules of its own: those are in [`weaver_core::lifecycle`].
//!
//! It implements what a store adds to them, by a full scan each time: which task is leased next, idempotency,
//! what is overdue, and what was published.

mod check;
mod compare;
mod reference;
mod run;
mod step;
mod strategy;

use std::sync::Arc;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

pub use check::{check, check_unseen};
pub use reference::{Granted, Reference};
pub use step::{End, LeasePlan, Move, RenewPlan, Step, TaskPlan, Under};
pub use strategy::steps;

use crate::harness::{Factory, Harness, TestStore};

/// Environment variable that overrides the number of cases.
pub const CASES_VARIABLE: &str = "WEAVER_MODEL_CASES";
/// Environment variable with the seed of the walks; 0 by default.
pub const SEED_VARIABLE: &str = "WEAVER_MODEL_SEED";

/// Runs `cases` random walks of up to `steps_max` steps on the stores a factory makes. The walks are the same
/// every time, unless [`SEED_VARIABLE`] says otherwise.
///
/// # Panics
/// If a store and the model disagree: with the shortest list of steps found that shows it.
pub fn run_cases<F>(
    store: &str,
    factory: impl Fn() -> F + Send + Sync + 'static,
    cases: u32,
    steps_max: usize,
) where
    F: Future<Output = Box<dyn TestStore>> + Send + 'static,
{
    let factory: Factory = Arc::new(move || Box::pin(factory()));
    let cases = number_from(CASES_VARIABLE).and_then(|count| u32::try_from(count).ok()).unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number_from(SEED_VARIABLE).unwrap_or_default().to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let outcome = runner.run(&steps(steps_max), |steps| walk(&factory, &steps).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("{store} and the reference model disagree.\n{failure}");
    }
}

fn walk(factory: &Factory, steps: &[Step]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        check(Harness::open(factory).await, steps).await?;
        check_unseen(Harness::open(factory).await, steps).await
    })
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`: give a number")))
}
