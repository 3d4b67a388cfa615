//! A walk: every step is taken by the store and by the model; answers and, after each step, everything that can be
//! seen must be equal.

use crate::bed::Bed;
use crate::model::run::Run;
use crate::model::step::Step;

/// Takes the steps on a fresh store and compares it with the model after each. The error says after which step they
/// differ, and in what.
pub async fn check(bed: Bed, steps: &[Step]) -> Result<(), String> {
    let mut run = Run::begin(bed).await?;
    for (index, step) in steps.iter().enumerate() {
        let at = |difference| format!("step {index}, {step:?}:\n{difference}");
        run.take(step).await.map_err(at)?;
        run.compare().await.map_err(at)?;
    }
    run.compare_lists().await.map_err(|difference| format!("after the last step:\n{difference}"))
}
