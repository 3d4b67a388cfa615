//! What a child reports to its parent: one JSON line before each call and one after its answer.

use serde::{Deserialize, Serialize};
use weaver_core::id::LeaseToken;
use weaver_core::task::{AttemptOutcome, Cause, TaskRecord, TaskState};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A step of opening the store.
    Opening(String),
    /// A call is about to be made. Its number is unique within a life.
    Request(u64, Request),
    /// The call of that number was answered.
    Answer(u64, Answer),
    /// A record was read.
    Saw(Snapshot),
    /// All records were read, this many: the load begins, or the final inspection is complete.
    SawAll(usize),
    /// A document was read.
    SawDocument { id: String, found: Option<(u64, String)> },
    /// A stream was read from its beginning to its end.
    SawStream { stream: String, entries: Vec<(u64, String)> },
    /// Changes were read: task, version, state; and the cursor after them.
    Published { moves: Vec<(u64, u64, TaskState)>, next: (u64, u64) },
    /// The change stream was read with a cursor of an earlier life, and answered resync or not.
    OldPlace { resync: bool },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    Enqueue(Vec<Member>),
    Lease(LeaseToken),
    /// Task, the version it was decided on, and the transition.
    Commit(Vec<(u64, u64, Move)>),
    /// Task and the version of the lease.
    Renew(u64, u64),
    /// Task and the version of the lease that it was cancelled under.
    Stopped(u64, u64),
    Put {
        id: String,
        after: Option<u64>,
        body: String,
    },
    Delete {
        id: String,
        version: u64,
    },
    Append {
        stream: String,
        bodies: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Task, and whether it was there before.
    Enqueued(Vec<(u64, bool)>),
    Leased(Vec<Snapshot>),
    Committed(Vec<Verdict>),
    Renewed {
        extended: bool,
    },
    Done,
    Version(u64),
    /// The number of the last entry.
    Appended(u64),
    /// A conditional write found another version.
    Conflict,
    /// Any other error; it must not happen on a working disk.
    Failed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    Applied(u64),
    Already,
    Stale,
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Repeated in the payload; unique per task.
    pub(crate) nonce: u64,
    pub(crate) queue: String,
    pub(crate) max_attempts: u32,
    pub(crate) max_losses: u32,
    pub(crate) delayed: bool,
    pub(crate) serial: Option<String>,
    pub(crate) unique: Option<String>,
    pub(crate) group: Option<String>,
}

/// A transition by a client, with its result or error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Move {
    Succeed(String),
    Fail(String),
    Fatal(String),
    Snooze,
    Release,
    /// The handler cancels the task.
    Quit(String),
    Cancel,
    RunNow,
    ExpireLease,
}

/// A record as a client read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) id: u64,
    /// `None` if the payload is not what any nonce makes.
    pub(crate) nonce: Option<u64>,
    pub(crate) queue: String,
    pub(crate) group: Option<String>,
    pub(crate) version: u64,
    pub(crate) state: TaskState,
    pub(crate) cause: Option<Cause>,
    /// Executions, failures, losses, attempt.
    pub(crate) counts: [u32; 4],
    pub(crate) renewals: u64,
    pub(crate) token: Option<LeaseToken>,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    /// The fencing token and the outcome of each attempt.
    pub(crate) attempts: Vec<(u64, AttemptOutcome)>,
}

impl Snapshot {
    pub(crate) fn of(record: &TaskRecord) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let attempts = record.attempts.iter().map(|attempt| (attempt.fence.0, attempt.outcome));
        Self {
            id: record.key.id.0,
            nonce: nonce_of(&record.spec.envelope.payload),
            queue: record.spec.queue.as_str().to_owned(),
            group: record.spec.origin().task_group_id.as_ref().map(|group| group.as_str().to_owned()),
            version: record.version.0,
            state: record.state,
            cause: record.cause,
            counts: [record.executions, record.failures, record.losses, record.attempt],
            renewals: record.renewals,
            token: record.lease.as_ref().map(|held| held.token),
            result: record.result.as_deref().map(text),
            error: record.last_error.as_deref().map(|error| text(error.as_bytes())),
            attempts: attempts.collect(),
        }
    }
}

/// The payload of a task: its nonce, repeated. Some fill several pages, so that a torn one would show.
pub(crate) fn payload(nonce: u64) -> Vec<u8> {
    let times = if nonce.is_multiple_of(16) { 600 } else { 1 + nonce % 8 };
    (0..times).flat_map(|_| nonce.to_be_bytes()).collect()
}

fn nonce_of(bytes: &[u8]) -> Option<u64> {
    let nonce = u64::from_be_bytes(*bytes.first_chunk()?);
    (payload(nonce) == bytes).then_some(nonce)
}
