//! Actions of a plan, and the reports of their results.

use weaver_core::id::TaskId;

use crate::domain::{CheckName, CheckTarget, EntryId, LandedChange, Merged, Oid};

/// A side effect. Idempotent, and planned again until its report is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Build a merge candidate: objects that no ref points to.
    Build {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
    },
    /// Enqueue the task of a check run.
    StartCheck {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Name in the base's configuration.
        check: CheckName,
        /// The candidate, or the base as a control.
        on: CheckTarget,
        /// Number of the run within the check.
        number: u32,
        /// Commit whose configuration defines the check.
        base: Oid,
        /// Commit to check out and test.
        commit: Oid,
        /// Number of the candidate within the entry.
        candidate: u32,
    },
    /// Cancel the task of a check run.
    StopCheck {
        /// It may have ended already.
        task: TaskId,
    },
    /// Move the base branch to the candidate by compare-and-set.
    Land {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Expected tip: the tested parent.
        base: Oid,
        /// New tip: the tested merge commit.
        commit: Oid,
    },
}

/// Result of an action. Cancelling has no report: it is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The candidate was built.
    Built {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
        /// Its tree and commit.
        merged: Merged,
        /// Checks it must pass, from the base's configuration.
        checks: Vec<CheckName>,
    },
    /// Head and base conflict.
    Conflict {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
        /// Conflicting files, at most 50.
        paths: Vec<String>,
        /// Landings of this queue that last changed those files.
        with: Vec<LandedChange>,
    },
    /// The configuration of the candidate is invalid.
    InvalidConfig {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
        /// What is wrong, for people.
        problem: String,
    },
    /// The head lacks objects, and the base does not.
    Unusable {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
        /// What the forge says.
        problem: String,
    },
    /// The base already contains the head.
    AlreadyMerged {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// First parent of the candidate.
        base: Oid,
        /// Second parent of the candidate.
        head: Oid,
        /// Whether it got there by a change outside this queue.
        is_outside: bool,
    },
    /// The task of a check run exists.
    Started {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Name in the base's configuration.
        check: CheckName,
        /// Number of the run within the check.
        number: u32,
        /// Number of the candidate within the entry.
        candidate: u32,
        /// The enqueued or deduplicated task.
        task: TaskId,
    },
    /// The base moved to the candidate.
    Landed {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Merge commit of the candidate.
        commit: Oid,
    },
    /// A hook of the repository declined the candidate.
    Declined {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Merge commit of the candidate.
        commit: Oid,
        /// Output of the hook.
        text: String,
    },
    /// The base cannot be moved until an operator acts, for a reason that is not the change's.
    Refused {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// Merge commit of the candidate.
        commit: Oid,
        /// The reason and what to do.
        problem: String,
    },
    /// A transient or unknown error: the entry stays and is retried with backoff.
    Fault {
        /// Entry at the head of the queue.
        entry: EntryId,
        /// The error, for people.
        message: String,
    },
}
