//! What merge queues refuse, as problems: by the names the errors have.

use axum::http::StatusCode;
use weaver_merge::domain::{EntryId, MergeError};
use weaver_merge::engine::EngineError;
use weaver_merge::forge::ForgeError;

use crate::problem::Problem;

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let detail = error.to_string();
        match error {
            EngineError::Merge(error) => refused(&error),
            EngineError::Store(error) => error.into(),
            EngineError::Forge(ForgeError::Gone(_)) => repository_not_found(detail),
            EngineError::Forge(ForgeError::Unavailable(_)) => {
                let next = "look at the repository on the server's machine, and ask again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "repository_unavailable", detail, next)
            }
            EngineError::NoQueue(_) => {
                let next = "list the merge queues to see what there is";
                Self::new(StatusCode::NOT_FOUND, "merge_queue_not_found", detail, next)
            }
            EngineError::Key(_) => {
                let next =
                    "look at the key files of the server's machine: merge.key_file and merge.trusted_keys";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "signing_key_unusable", detail, next)
            }
            EngineError::Busy => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail, "repeat the request")
            }
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "unreadable",
                detail,
                "use a newer version of Weaver, or restore the store from a backup",
            ),
        }
    }
}

fn refused(error: &MergeError) -> Problem {
    let detail = error.to_string();
    let (code, next) = match error {
        MergeError::AlreadyInQueue { .. } => ("already_in_queue", "wait for it, or cancel it first"),
        MergeError::PullRequestClosed(_) => ("pull_request_closed", "push the branch, or open it again"),
        MergeError::PullRequestDraft(_) => ("pull_request_draft", "mark it ready for review"),
        MergeError::PullRequestConflicted(_) => {
            ("pull_request_conflicted", "merge the base into it, or rebase it, and push")
        }
        MergeError::InvalidBaseBranch { .. } => ("invalid_base_branch", "correct what the detail says"),
        MergeError::EntryNotFound(_) => {
            let next = "list the entries; those that left are there too, as long as they are kept";
            return Problem::new(StatusCode::NOT_FOUND, "entry_not_found", detail, next);
        }
        MergeError::RepositoryNotFound(_) => return repository_not_found(detail),
        MergeError::InvalidPosition { .. } => ("invalid_position", CORRUPTED),
        MergeError::DuplicatePr(_) => ("duplicate_pr", CORRUPTED),
        MergeError::MultipleProcessing(_) => ("multiple_processing", CORRUPTED),
        MergeError::QueueCorrupted(_) => ("queue_corrupted", CORRUPTED),
        MergeError::Conflicted { .. } => ("conflicted", "merge the base into it, or rebase it, and push"),
        MergeError::ChecksFailed { .. } => ("checks_failed", "look at the checks of the entry"),
        MergeError::PrUpdateFailed { .. } => ("pr_update_failed", "nothing: it is tried again"),
        MergeError::MergeFailed { .. } => ("merge_failed", "nothing: it is tried again"),
        MergeError::Landing(_) => ("landing", "wait a moment: it has passed and lands"),
        MergeError::NothingToAccept { .. } => {
            ("nothing_to_accept", "look at the queue's pause and at its base")
        }
        MergeError::QueueFull(_) => ("queue_full", "wait until some have landed"),
        _ => ("merge_refused", "look at the queue"),
    };
    Problem::new(StatusCode::CONFLICT, code, detail, next)
}

const CORRUPTED: &str = "look at the queue's document; nothing was removed from it";

fn repository_not_found(detail: String) -> Problem {
    let next = "bring the repository back, or correct its path: it is one of the server's machine";
    Problem::new(StatusCode::NOT_FOUND, "repository_not_found", detail, next)
}

/// An entry that has not landed has no certificate.
pub(super) fn not_landed(entry: EntryId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "certificate_not_found",
        format!("entry {entry} has not landed"),
        "list the certificates to see which have",
    )
}

/// A queue of an older version that was not looked at yet.
pub(super) fn no_chain(queue: &weaver_merge::domain::QueueId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "chain_not_found",
        format!("the merge queue `{queue}` has no chain yet"),
        "wait until the server looks at the queue: its chain begins then",
    )
}
