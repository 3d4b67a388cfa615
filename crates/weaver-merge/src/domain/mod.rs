//! The domain of a merge queue: entries, statuses, candidates, checks and invariants. Pure.
//!
//! ```text
//! status.rs      status of an entry; the allowed transitions as data
//! entry.rs       an entry, its change and its merge candidate
//! chain.rs       where the base should be; changes outside the queue
//! check.rs       checks of a candidate, their runs and conclusions
//! queue.rs       the queue: enqueue, remove, order, priority
//! invariant.rs   invariants of a saved queue and of each transition
//! outcome.rs     how an entry leaves; notices
//! duration_histogram.rs  turnaround and wait times
//! error.rs       errors
//! id.rs          identifiers
//! ```

mod chain;
mod check;
mod duration_histogram;
mod entry;
mod error;
mod id;
mod invariant;
mod outcome;
mod queue;
mod status;

pub use chain::{ChainHead, Declines, ForeignMove, LinkId};
pub use check::{Check, CheckRun, CheckTarget, Conclusion, RUNS_MAX, RunOutcome};
pub use duration_histogram::{BOUNDS_S, DurationHistogram};
pub use entry::{Candidate, Fault, Merged, PullRequest, PullRequestState, QueueEntry};
pub use error::MergeError;
pub use id::{BadOid, CheckName, EntryId, Oid, QueueId};
pub use outcome::{EntryOutcome, Notice, Reason};
pub use queue::{
    ENTRIES_MAX, MergeQueue, OnForeign, PASSED_MAX, PRIORITY_DEFAULT, PRIORITY_LOWEST, PassedTree, Pause,
    PauseCause, Repository, Tally,
};
pub use status::{Edge, Status, TABLE};
