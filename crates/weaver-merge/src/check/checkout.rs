//! Writes the commit of a check into its workspace.

use std::io;
use std::path::Path;

use weaver_core::outcome::Outcome;

use super::CheckPayload;
use crate::domain::{CheckTarget, MergeQueue, RunOutcome};
use crate::engine::build_again;
use crate::forge::{Forge, ForgeError};

/// A second time after missing objects: `git gc` may have removed some that the candidate shared with commits
/// that no ref points to any more.
const TRIES: usize = 2;

/// Writes the files; the inner error is the outcome of a commit that no machine can check out.
pub(super) async fn check_out(
    forge: &dyn Forge,
    queue: &MergeQueue,
    payload: &CheckPayload,
    into: &Path,
) -> Result<Result<(), RunOutcome>, Outcome> {
    let mut problem = String::new();
    for _ in 0..TRIES {
        if payload.on == CheckTarget::Candidate
            && let Err(problem) = build_again(forge, queue, payload).await?
        {
            return Ok(Err(RunOutcome::Unusable { problem }));
        }
        match forge.check_out(&payload.commit, into).await {
            Ok(()) => return Ok(Ok(())),
            Err(ForgeError::Unusable(said)) => problem = said,
            Err(error) => return Err(Outcome::failed(format!("checkout failed: {error}"))),
        }
        empty(into).map_err(|error| Outcome::failed(format!("cannot empty a workspace: {error}")))?;
    }
    Ok(Err(RunOutcome::Unusable { problem }))
}

fn empty(directory: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(directory)?;
    std::fs::create_dir(directory)
}
