//! What happened in a world, as it was really written: the checkers know nothing else.

mod describe;
mod recorder;

use std::fmt;

use weaver_core::event::Change;
use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, LeaseRequest, Renewed};
use weaver_core::lifecycle::Transition;
use weaver_core::name::{Namespace, QueueName};
use weaver_core::ports::QueueSettings;
use weaver_core::queue::{Committed, Enqueued};
use weaver_core::task::{TaskRecord, ValidTask};
use weaver_core::time::Timestamp;
use weaver_runtime::StopReason;

pub(super) use recorder::Recorder;

use crate::simulation::scenario::Scenario;

/// Everything that happened, in order.
#[derive(Debug)]
pub struct History {
    /// What was to happen.
    pub scenario: Scenario,
    /// What did.
    pub entries: Vec<Entry>,
    /// Every record at the end, as its store lists it.
    pub finals: Vec<TaskRecord>,
    /// The last known state of every record, as the calls left it.
    pub known: Vec<TaskRecord>,
}

/// Something that happened.
#[derive(Debug)]
pub struct Entry {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Debug)]
pub enum What {
    /// A task was given to the store.
    Enqueued {
        /// By whom.
        by: String,
        /// What was asked for.
        asked: ValidTask,
        /// What the store said.
        answer: Enqueued,
        /// What it then had.
        record: Option<Box<TaskRecord>>,
    },
    /// A producer got its answer.
    Acknowledged(TaskKey),
    /// A worker asked for tasks.
    Leased {
        /// What it asked for.
        request: LeaseRequest,
        /// What it was given.
        grants: Vec<Grant>,
    },
    /// A decided move reached the store.
    Committed {
        /// By whom.
        by: String,
        /// The move.
        transition: Box<Transition>,
        /// What the store said.
        answer: Committed,
        /// The record before.
        before: Option<Box<TaskRecord>>,
        /// The record after.
        after: Option<Box<TaskRecord>>,
    },
    /// A renewal reached the store.
    Renewed {
        /// The lease.
        lease: Lease,
        /// What the store said.
        answer: Renewed,
        /// The record before.
        before: Option<Box<TaskRecord>>,
        /// The record after.
        after: Option<Box<TaskRecord>>,
    },
    /// Somebody said that a handler has stopped.
    Stopped {
        /// By whom.
        by: String,
        /// Its lease.
        lease: Lease,
        /// The record before.
        before: Option<Box<TaskRecord>>,
        /// The record after.
        after: Option<Box<TaskRecord>>,
    },
    /// A queue was set up.
    QueueSet(Namespace, QueueName, QueueSettings),
    /// A handler began.
    Began(Run),
    /// A handler was told to stop.
    Told(Run, StopReason),
    /// A handler is no more.
    Ended(Run, RunEnd),
    /// A change was read from the stream.
    Published(Change),
    /// The stream had forgotten something.
    Resync,
    /// A worker's life began.
    Alive(String, u32),
    /// A worker vanished, with all its handlers.
    Crashed(String, u32),
    /// A worker was asked to stop.
    ShutdownAsked(String, u32),
    /// A worker returned.
    Returned(String, u32),
    /// The world was given up with these tasks not ended, or held.
    Stranded(Vec<TaskKey>),
    /// A worker did not return after it was asked to stop.
    Hung(String),
}

/// A task given to a worker.
#[derive(Debug)]
pub struct Grant {
    /// The right to run it.
    pub lease: Lease,
    /// The record before.
    pub before: Option<Box<TaskRecord>>,
    /// The record as the worker got it.
    pub given: Box<TaskRecord>,
    /// The record as the store has it.
    pub after: Option<Box<TaskRecord>>,
}

impl Grant {
    /// Whether it repeats what an earlier call with this token granted.
    pub fn is_repeated(&self) -> bool {
        self.before.as_ref().and_then(|before| before.current_lease()).is_some_and(|held| held == self.lease)
    }
}

/// One execution of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The task.
    pub key: TaskKey,
    /// The attempt.
    pub attempt: u32,
    /// The fence its handler was given.
    pub fence: u64,
    /// Who runs it.
    pub worker: String,
    /// In which of its lives.
    pub life: u32,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// It did its work.
    Done,
    /// It returned an error, or panicked.
    Failed,
    /// It asked to be called later.
    Snoozed,
    /// It ended the task.
    Cancelled,
    /// It was told to stop, and stopped.
    Obeyed,
    /// It was dropped.
    Dropped,
}

impl History {
    /// Two worlds with the same number went the same way.
    pub fn trace_hash(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        for entry in &self.entries {
            fmt::write(&mut hash, format_args!("{entry}\n")).expect("a hash takes any text");
        }
        hash.0
    }
}

struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}
