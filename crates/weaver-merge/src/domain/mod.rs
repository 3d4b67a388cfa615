//! What a merge queue is: entries in order, what each is doing, and what is always true of them.
//!
//! ```text
//! status.rs      what an entry is doing; the allowed moves as data
//! entry.rs       an entry, the change it is for, its candidate
//! chain.rs       where the base should be, and what others did to it
//! check.rs       the checks of a candidate and how each run ended
//! queue.rs       the queue: in, out, order, priority
//! invariant.rs   what every saved queue must satisfy, by itself and against the one before
//! departure.rs   how an entry leaves
//! times.rs       how long it took, in numbers
//! error.rs       what can go wrong, by name
//! id.rs          names of things
//! ```

mod chain;
mod check;
mod departure;
mod entry;
mod error;
mod id;
mod invariant;
mod queue;
mod status;
mod times;

pub use chain::{ChainHead, Declines, ForeignMove, LinkId};
pub use check::{Check, CheckRun, Judgement, On, RUNS_MAX, RunEnd};
pub use departure::{Departure, Notice, Reason};
pub use entry::{Candidate, Merged, PullRequest, PullRequestState, QueueEntry, Trouble};
pub use error::MergeError;
pub use id::{BadOid, CheckName, EntryId, Oid, QueueId};
pub use queue::{
    ENTRIES_MAX, MergeQueue, OnForeign, PASSED_MAX, PRIORITY_DEFAULT, PRIORITY_LOWEST, PassedTree, Pause,
    PauseCause, Repository, Tally,
};
pub use status::{Edge, Status, TABLE};
pub use times::{BOUNDS_S, Times};
