//! The domain of a merge queue: entries, statuses, candidates, checks and invariants. Pure.
//!
//! ```text
//! status.rs      status of an entry; the allowed transitions as data
//! entry.rs       an entry, its change and its merge candidate
//! branch.rs      names of branches
//! chain.rs       where the base should be; changes outside the queue
//! check.rs       checks of a candidate, their runs and conclusions
//! queue.rs       the queue: remove, order, priority
//! enqueue.rs     adding a change, pinned to its head
//! invariant.rs   invariants of a saved queue and of each transition
//! outcome.rs     how an entry leaves; notices
//! removal.rs     removing a queue, and adding it again
//! duration_histogram.rs  turnaround and wait times
//! error.rs       errors
//! id.rs          identifiers
//! ```

mod branch;
mod chain;
mod check;
mod duration_histogram;
mod enqueue;
mod entry;
mod error;
mod id;
mod invariant;
mod outcome;
mod queue;
mod removal;
mod status;

pub use branch::branch_name_problem;
pub use chain::{ChainHead, Declines, ForeignMove, LinkId};
pub use check::{Check, CheckRun, CheckTarget, Conclusion, RUNS_MAX, RunOutcome};
pub use duration_histogram::{BOUNDS_S, DurationHistogram};
pub use enqueue::{EnqueueOptions, OnPush};
pub use entry::{Candidate, Fault, Merged, PullRequest, PullRequestState, QueueEntry};
pub use error::MergeError;
pub use id::{BadOid, CheckName, EntryId, Oid, QueueId};
pub use outcome::{Conflict, EntryOutcome, LandedChange, Notice, Reason};
pub use queue::{
    ENTRIES_MAX, MergeQueue, OnForeign, PASSED_MAX, PRIORITY_DEFAULT, PRIORITY_LOWEST, PassedTree, Pause,
    PauseCause, Repository, Tally,
};
pub use removal::{Removal, RemoveOptions};
pub use status::{Edge, Status, TABLE};
