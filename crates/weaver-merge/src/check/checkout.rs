//! The files of a check: a copy that it shares with other checks of the commit, or one of its own. Protected
//! ones are those of the base.

use std::io;
use std::path::Path;
use std::sync::Arc;

use weaver_core::outcome::Outcome;
use weaver_process::confine::User;

use super::CheckPayload;
use super::trees::{Tree, Trees};
use crate::domain::{CheckTarget, MergeQueue, Oid, RunOutcome};
use crate::engine::build_again;
use crate::forge::{Forge, ForgeError};

/// A second time after missing objects: `git gc` may have removed some that the candidate shared with commits
/// that no ref points to any more.
const TRIES: usize = 2;

/// The files of a check.
pub(super) struct Wanted<'a> {
    pub(super) commit: &'a Oid,
    /// The commit of the protected files.
    pub(super) base: &'a Oid,
    /// Paths that are replaced by those of the base; none when the base itself is checked.
    pub(super) protected: &'a [String],
}

/// Where the files of a check go.
pub(super) enum Place<'a> {
    /// Into this empty directory.
    Own(&'a Path),
    /// Among the shared copies, for this user.
    Shared(&'a Trees, Option<User>),
}

/// Writes the files; the inner error is the outcome of a commit that no machine can check out.
pub(super) async fn check_out(
    forge: &dyn Forge,
    queue: &MergeQueue,
    payload: &CheckPayload,
    protected: &[String],
    place: Place<'_>,
) -> Result<Result<Option<Arc<Tree>>, RunOutcome>, Outcome> {
    let mut problem = String::new();
    for _ in 0..TRIES {
        if payload.on == CheckTarget::Candidate
            && let Err(problem) = build_again(forge, queue, payload).await?
        {
            return Ok(Err(RunOutcome::Unusable { problem }));
        }
        let wanted = Wanted { commit: &payload.commit, base: &payload.base, protected };
        let written = match place {
            Place::Own(into) => write(forge, &wanted, into).await.map(|()| None),
            Place::Shared(trees, user) => {
                trees.get(forge, &queue.repository.location, &wanted, user).await.map(Some)
            }
        };
        match written {
            Ok(tree) => return Ok(Ok(tree)),
            Err(ForgeError::Unusable(said)) => problem = said,
            Err(error) => return Err(Outcome::failed(format!("checkout failed: {error}"))),
        }
        if let Place::Own(into) = place {
            empty(into).map_err(|error| Outcome::failed(format!("cannot empty a workspace: {error}")))?;
        }
    }
    Ok(Err(RunOutcome::Unusable { problem }))
}

async fn write(forge: &dyn Forge, wanted: &Wanted<'_>, into: &Path) -> Result<(), ForgeError> {
    forge.check_out(wanted.commit, into).await?;
    write_protected(forge, wanted, into).await
}

/// Replaces the protected files of a checkout. An error is never the change's fault: they are the base's.
pub(super) async fn write_protected(
    forge: &dyn Forge,
    wanted: &Wanted<'_>,
    into: &Path,
) -> Result<(), ForgeError> {
    if wanted.protected.is_empty() {
        return Ok(());
    }
    match forge.restore(wanted.base, wanted.protected, into).await {
        Err(ForgeError::Unusable(problem)) => Err(ForgeError::Unavailable(problem)),
        restored => restored,
    }
}

fn empty(directory: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(directory)?;
    std::fs::create_dir(directory)
}
