//! A walk: every step runs on the store and on the model, and answers and visible state must be equal.

use crate::harness::Harness;
use crate::model::run::Run;
use crate::model::step::Step;

/// Runs the steps on a fresh store and compares it with the model after each: the answer and all visible
/// state. The error says after which step they differ, and how.
pub async fn check(harness: Harness, steps: &[Step]) -> Result<(), String> {
    walk(harness, steps, true).await
}

/// The same without reads in between: only answers are compared until the last step. A store that cleans up
/// on reads must not depend on being read.
pub async fn check_unseen(harness: Harness, steps: &[Step]) -> Result<(), String> {
    walk(harness, steps, false).await.map_err(|difference| format!("without reads in between, {difference}"))
}

async fn walk(harness: Harness, steps: &[Step], reads_between: bool) -> Result<(), String> {
    let mut run = Run::begin(harness).await?;
    for (index, step) in steps.iter().enumerate() {
        let at = |difference| format!("step {index}, {step:?}:\n{difference}");
        run.take(step).await.map_err(at)?;
        if reads_between {
            run.compare().await.map_err(at)?;
        }
    }
    let at_end = |difference| format!("after the last step:\n{difference}");
    run.compare().await.map_err(at_end)?;
    run.compare_lists().await.map_err(at_end)
}
