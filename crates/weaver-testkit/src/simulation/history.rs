//! The history of a world, as it was executed by the store: the only input of the checkers.

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

/// All events of a world, in order.
#[derive(Debug)]
pub struct History {
    /// The plan that was executed.
    pub scenario: Scenario,
    /// Recorded events, in order.
    pub entries: Vec<Entry>,
    /// All records at the end, as the store lists them.
    pub finals: Vec<TaskRecord>,
    /// Last known state of every record, from the calls.
    pub known: Vec<TaskRecord>,
}

/// An event with its time.
#[derive(Debug)]
pub struct Entry {
    /// By the store's clock.
    pub at: Timestamp,
    /// The event that was recorded.
    pub what: What,
}

/// Kinds of recorded events.
#[derive(Debug)]
pub enum What {
    /// A task was enqueued.
    Enqueued {
        /// Name of the caller.
        by: String,
        /// The request after validation.
        requested: ValidTask,
        /// Answer of the store.
        answer: Enqueued,
        /// The record after the call.
        record: Option<Box<TaskRecord>>,
    },
    /// A producer received its answer.
    Acknowledged(TaskKey),
    /// A worker called `lease`.
    Leased {
        /// Arguments of the call.
        request: LeaseRequest,
        /// Granted leases, in order.
        grants: Vec<Grant>,
    },
    /// A transition reached the store.
    Committed {
        /// Name of the caller.
        by: String,
        /// As its caller decided it.
        transition: Box<Transition>,
        /// Answer of the store.
        answer: Committed,
        /// The record before the call.
        before: Option<Box<TaskRecord>>,
        /// The record after the call.
        after: Option<Box<TaskRecord>>,
    },
    /// A renewal reached the store.
    Renewed {
        /// The lease to renew.
        lease: Lease,
        /// Answer of the store.
        answer: Renewed,
        /// The record before the call.
        before: Option<Box<TaskRecord>>,
        /// The record after the call.
        after: Option<Box<TaskRecord>>,
    },
    /// A caller confirmed that a cancelled handler stopped.
    Stopped {
        /// Name of the caller.
        by: String,
        /// Lease of the stopped handler.
        lease: Lease,
        /// The record before the call.
        before: Option<Box<TaskRecord>>,
        /// The record after the call.
        after: Option<Box<TaskRecord>>,
    },
    /// The settings of a queue changed.
    QueueSet(Namespace, QueueName, QueueSettings),
    /// A handler started an attempt.
    Began(Run),
    /// A handler was asked to stop.
    StopRequested(Run, StopReason),
    /// A handler ended an attempt.
    Ended(Run, RunOutcome),
    /// A change was read from the stream.
    Published(Change),
    /// The change stream had a gap.
    Resync,
    /// A worker process started.
    Alive(String, u32),
    /// A worker crashed, with all its handlers.
    Crashed(String, u32),
    /// A graceful shutdown of a worker was requested.
    ShutdownRequested(String, u32),
    /// A worker shut down completely.
    Returned(String, u32),
    /// The world ended with these tasks unfinished or held.
    Stranded(Vec<TaskKey>),
    /// A worker did not shut down in time.
    Hung(String),
}

/// A lease granted to a worker.
#[derive(Debug)]
pub struct Grant {
    /// Lease with its fencing token.
    pub lease: Lease,
    /// The record before the call.
    pub before: Option<Box<TaskRecord>>,
    /// The record that the worker received.
    pub given: Box<TaskRecord>,
    /// The record that the store has.
    pub after: Option<Box<TaskRecord>>,
}

impl Grant {
    /// Whether an earlier call with this token granted it already.
    pub fn is_repeated(&self) -> bool {
        self.before.as_ref().and_then(|before| before.current_lease()).is_some_and(|held| held == self.lease)
    }
}

/// One execution of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Key of the task.
    pub key: TaskKey,
    /// Number of the attempt.
    pub attempt: u32,
    /// Fencing token of its lease.
    pub fence: u64,
    /// Name of the worker.
    pub worker: String,
    /// Process number of the worker, from 1.
    pub life: u32,
}

/// Outcome of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// It returned a success.
    Done,
    /// It returned an error, or panicked.
    Failed,
    /// It returned a snooze.
    Snoozed,
    /// It cancelled its own task.
    Cancelled,
    /// It was asked to stop, and stopped.
    Stopped,
    /// Its future was dropped.
    Dropped,
}

impl History {
    /// Equal for two runs with the same history.
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
