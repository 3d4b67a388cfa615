//! What a plan asks for, and what is reported back.

use weaver_core::id::TaskId;

use crate::domain::{CheckName, EntryId, Merged, Oid, On};

/// Something to do. Each can be repeated, and each is asked for again until its report is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Merge the head onto the base, as objects that no ref points to.
    Build {
        /// For this entry.
        entry: EntryId,
        /// Onto this.
        base: Oid,
        /// Of this.
        head: Oid,
    },
    /// Enqueue the task of a run.
    StartCheck {
        /// For this entry.
        entry: EntryId,
        /// This check.
        check: CheckName,
        /// On the candidate, or on the base alone.
        on: On,
        /// The run's number.
        number: u32,
        /// Whose configuration says what the check is.
        base: Oid,
        /// What to test.
        commit: Oid,
        /// The candidate's number.
        candidate: u32,
    },
    /// Cancel a task.
    StopCheck {
        /// Which.
        task: TaskId,
    },
    /// Move the base branch from its tested parent to the candidate.
    Land {
        /// For this entry.
        entry: EntryId,
        /// From here, and from nowhere else.
        base: Oid,
        /// To here.
        commit: Oid,
    },
}

/// What came of an action. Cancelling reports nothing: it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The candidate exists.
    Built {
        /// For this entry.
        entry: EntryId,
        /// Onto this.
        base: Oid,
        /// Of this.
        head: Oid,
        /// The objects.
        merged: Merged,
        /// The checks it must pass, in the base's configuration.
        checks: Vec<CheckName>,
    },
    /// It cannot be merged.
    Conflict {
        /// For this entry.
        entry: EntryId,
        /// Onto this.
        base: Oid,
        /// Of this.
        head: Oid,
        /// Where.
        paths: Vec<String>,
    },
    /// There is nothing to merge: the base has it.
    AlreadyMerged {
        /// For this entry.
        entry: EntryId,
        /// Onto this.
        base: Oid,
        /// Of this.
        head: Oid,
        /// Whether it came there by a move that this queue did not make.
        is_outside: bool,
    },
    /// The task of a run exists.
    Started {
        /// For this entry.
        entry: EntryId,
        /// This check.
        check: CheckName,
        /// The run's number.
        number: u32,
        /// The candidate's number.
        candidate: u32,
        /// The task.
        task: TaskId,
    },
    /// The base moved to the candidate.
    Landed {
        /// For this entry.
        entry: EntryId,
        /// To here.
        commit: Oid,
    },
    /// A hook of the repository declined the candidate.
    Declined {
        /// For this entry.
        entry: EntryId,
        /// Which candidate.
        commit: Oid,
        /// What the hook said.
        text: String,
    },
    /// The base may not be moved, for a reason that is not the change's and does not pass by itself.
    Refused {
        /// For this entry.
        entry: EntryId,
        /// Which candidate.
        commit: Oid,
        /// Why, and what to do.
        problem: String,
    },
    /// Something went wrong that may pass, or is not understood: either way the entry stays.
    Trouble {
        /// For this entry.
        entry: EntryId,
        /// What.
        message: String,
    },
}
