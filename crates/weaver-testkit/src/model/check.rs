//! A walk: every step is taken by the store and by the model; answers and everything that can be seen must be
//! equal.

use crate::harness::Harness;
use crate::model::run::Run;
use crate::model::step::Step;

/// Takes the steps on a fresh store and compares it with the model after each: the answer, and everything
/// that can be seen. The error says after which step they differ, and in what.
pub async fn check(harness: Harness, steps: &[Step]) -> Result<(), String> {
    walk(harness, steps, true).await
}

/// The same without looking in between: only answers are compared until the last step. A store that tidies up
/// when it is read must not need to be read.
pub async fn check_unseen(harness: Harness, steps: &[Step]) -> Result<(), String> {
    walk(harness, steps, false).await.map_err(|difference| format!("not looked at in between, {difference}"))
}

async fn walk(harness: Harness, steps: &[Step], looks: bool) -> Result<(), String> {
    let mut run = Run::begin(harness).await?;
    for (index, step) in steps.iter().enumerate() {
        let at = |difference| format!("step {index}, {step:?}:\n{difference}");
        run.take(step).await.map_err(at)?;
        if looks {
            run.compare().await.map_err(at)?;
        }
    }
    let at_end = |difference| format!("after the last step:\n{difference}");
    run.compare().await.map_err(at_end)?;
    run.compare_lists().await.map_err(at_end)
}
