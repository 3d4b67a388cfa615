//! Candidates for checks: they are private to the process that built them, so the process that runs a check
//! builds its candidate again.

use weaver_core::outcome::Outcome;

use super::certificate;
use crate::check::CheckPayload;
use crate::domain::MergeQueue;
use crate::forge::{Forge, ForgeError, MergeOutcome, MergeRequest};

/// Builds the candidate that a check is for; the same request makes the same objects. The inner error says
/// why no machine can build it.
///
/// # Errors
/// The outcome of the check's task, if it has no candidate to run on.
pub(crate) async fn build_again(
    forge: &dyn Forge,
    queue: &MergeQueue,
    payload: &CheckPayload,
) -> Result<Result<(), String>, Outcome> {
    let commit = &payload.commit;
    let entry = queue.entry(payload.entry).ok();
    let known = entry.and_then(|entry| Some((entry, entry.candidate.as_ref()?, entry.merged()?)));
    let known =
        known.filter(|(_, candidate, merged)| (&merged.commit, &candidate.base) == (commit, &payload.base));
    let Some((entry, candidate, _)) = known else {
        // The payload's author must not choose what is checked out either.
        return Err(Outcome::fatal(format!("{commit} is not the candidate of entry {}", payload.entry)));
    };
    let message = certificate::message_of(queue, entry);
    let request = MergeRequest { base: candidate.base.clone(), head: candidate.head.clone(), message };
    match forge.merge(&request).await {
        Ok(MergeOutcome::Merged(again)) if again.commit == *commit => Ok(Ok(())),
        Ok(other) => {
            Err(Outcome::fatal(format!("{commit} cannot be built again from its parents: {other:?}")))
        }
        Err(ForgeError::Unusable(problem)) => Ok(Err(problem)),
        Err(error) => Err(Outcome::failed(format!("{commit} cannot be built again: {error}"))),
    }
}
