//! Problems of the merge queues' errors; the codes are the errors' names.

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
            EngineError::Forge(ForgeError::NotFound(_)) => repository_not_found(detail),
            EngineError::Forge(ForgeError::Unavailable(_)) => {
                let hint = "check the repository on the server's machine, then retry";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "repository_unavailable", detail, hint)
            }
            EngineError::Forge(ForgeError::Unusable(_)) => {
                let hint =
                    "fix what the message names, push the change again from a complete clone, then retry";
                Self::new(StatusCode::CONFLICT, "change_unusable", detail, hint)
            }
            EngineError::NoQueue(_) => {
                let hint = "list the merge queues";
                Self::new(StatusCode::NOT_FOUND, "merge_queue_not_found", detail, hint)
            }
            EngineError::Key(_) => {
                let hint =
                    "check the key files on the server's machine: merge.key_file and merge.trusted_keys";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "signing_key_unusable", detail, hint)
            }
            EngineError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail, "retry later"),
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
    let (code, hint) = match error {
        MergeError::AlreadyInQueue { .. } => ("already_in_queue", "wait for the entry, or cancel it first"),
        MergeError::HeadMismatch { .. } => {
            ("head_mismatch", "review the current commit of the branch, and enqueue that")
        }
        // Not 400: what names a change depends on the forge, so the schema of the API cannot say it.
        MergeError::InvalidBranchName { .. } => {
            ("invalid_branch_name", "send the exact name of a branch, such as `main`")
        }
        MergeError::PullRequestClosed(_) => {
            ("pull_request_closed", "push the branch, or reopen the pull request")
        }
        MergeError::PullRequestDraft(_) => ("pull_request_draft", "mark it ready for review"),
        MergeError::PullRequestConflicted { .. } => {
            ("pull_request_conflicted", "merge the base into it, or rebase it, and push")
        }
        MergeError::InvalidBaseBranch { .. } => ("invalid_base_branch", "correct the base branch"),
        MergeError::EntryNotFound(_) => {
            let hint = "list the entries and the history; old entries are removed after their retention";
            return Problem::new(StatusCode::NOT_FOUND, "entry_not_found", detail, hint);
        }
        MergeError::RepositoryNotFound(_) => return repository_not_found(detail),
        MergeError::InvalidPosition { .. } => ("invalid_position", CORRUPTED),
        MergeError::DuplicatePr(_) => ("duplicate_pr", CORRUPTED),
        MergeError::MultipleProcessing(_) => ("multiple_processing", CORRUPTED),
        MergeError::QueueCorrupted(_) => ("queue_corrupted", CORRUPTED),
        MergeError::Conflicted { .. } => ("conflicted", "merge the base into it, or rebase it, and push"),
        MergeError::ChecksFailed { .. } => ("checks_failed", "see the checks of the entry"),
        MergeError::PrUpdateFailed { .. } => ("pr_update_failed", "no action needed: it is retried"),
        MergeError::MergeFailed { .. } => ("merge_failed", "no action needed: it is retried"),
        MergeError::Landing(_) => ("landing", "wait: its checks have passed and it is landing"),
        MergeError::NothingToAccept { .. } => {
            ("nothing_to_accept", "compare the reason of the queue's pause with its base branch")
        }
        MergeError::OpenEntries(_) => (
            "open_entries",
            "wait until they have landed, or cancel them with it: --cancel-entries, `cancel_entries=true`",
        ),
        MergeError::QueueRemoved(_) => {
            ("merge_queue_removed", "add the repository again; its history continues")
        }
        MergeError::NameTaken(_) => ("merge_queue_name_taken", "add the repository with another name"),
        MergeError::RepositoryTaken { .. } => {
            ("repository_taken", "use the queue that it has, or remove that one first")
        }
        MergeError::ReservedNamespace(_) => ("reserved_namespace", "choose another namespace"),
        MergeError::QueueFull(_) => ("queue_full", "wait until some entries have landed"),
        _ => ("merge_refused", "read the queue and its entries"),
    };
    Problem::new(StatusCode::CONFLICT, code, detail, hint)
}

const CORRUPTED: &str = "inspect the queue's document; it was left unchanged";

fn repository_not_found(detail: String) -> Problem {
    let hint = "restore the repository, or correct its path: it is a path on the server's machine";
    Problem::new(StatusCode::NOT_FOUND, "repository_not_found", detail, hint)
}

pub(super) fn not_landed(entry: EntryId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "certificate_not_found",
        format!("entry {entry} has not landed"),
        "list the certificates for the entries that have landed",
    )
}

/// A queue of an older version that the engine has not processed yet.
pub(super) fn no_chain(queue: &weaver_merge::domain::QueueId) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "chain_not_found",
        format!("the merge queue `{queue}` has no chain yet"),
        "wait until the engine processes the queue: its chain starts then",
    )
}
