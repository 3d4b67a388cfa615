//! Leases: a worker's right to run a task, for a while.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem};
use crate::id::{Epoch, LeaseToken, TaskKey, Version};
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::task::{Progress, TaskRecord};
use crate::time::duration_ms;
use crate::whole;

/// The lease of a worker that says nothing else.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest lease: less, and a pause of the process would lose it.
pub const LEASE_TTL_MIN: Duration = Duration::from_millis(10);
/// The longest lease: nothing may stay stranded longer (G3).
pub const LEASE_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// How many tasks one lease call may ask for.
pub const LEASE_BATCH_MAX: u32 = 1000;

/// The right to run one attempt of one task. Every write made under it is conditional on `version` (G2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The task.
    pub key: TaskKey,
    /// The record's version while this lease is valid. It only grows per task: hand it to the systems your
    /// handler writes to, and let them refuse a smaller one.
    pub version: Version,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The holder.
    pub worker: WorkerId,
    /// The holder's proof.
    pub token: LeaseToken,
    /// The leader's epoch the attempt started under; 0 for pull.
    pub epoch: Epoch,
    /// How long it lasts from each renewal. The holder counts from *before* it sent the request.
    pub ttl: Duration,
}

/// A lease with what its holder needs to do the work and to decide its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Leased {
    /// The right to run it.
    pub lease: Lease,
    /// The task as it was when the lease was granted.
    pub record: TaskRecord,
}

/// A worker asks for tasks.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Where from.
    pub namespace: Namespace,
    /// From which queues; order does not matter, G7 decides.
    pub queues: Vec<QueueName>,
    /// Only of these types; `None`: of any.
    pub types: Option<Vec<TaskType>>,
    /// Who asks.
    pub worker: WorkerId,
    /// 128 random bits, drawn for this call.
    pub token: LeaseToken,
    /// At most so many tasks.
    pub max: u32,
    /// At most so many of them may be fragile: lost before, or allowed no loss at all. These must start at
    /// once.
    pub slots: u32,
    /// How long each lease lasts.
    pub ttl: Duration,
}

impl LeaseRequest {
    /// One task of any type from one queue, for [`LEASE_TTL_DEFAULT`].
    pub fn new(namespace: Namespace, queue: QueueName, worker: WorkerId, token: LeaseToken) -> Self {
        let ttl = LEASE_TTL_DEFAULT;
        Self { namespace, queues: vec![queue], types: None, worker, token, max: 1, slots: 1, ttl }
    }

    /// Refuses zero and huge numbers. Stores call it first.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.queues.is_empty() {
            return Err(Invalid::new("queues", Problem::Empty));
        }
        if !(1..=LEASE_BATCH_MAX).contains(&self.max) {
            let problem = Problem::OutOfRange { value: self.max.into(), min: 1, max: LEASE_BATCH_MAX.into() };
            return Err(Invalid::new("max", problem));
        }
        check_ttl(self.ttl)
    }
}

/// Refuses leases too short to keep or too long to lose.
pub(crate) fn check_ttl(value: Duration) -> Result<(), Invalid> {
    if (LEASE_TTL_MIN..=LEASE_TTL_MAX).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new("ttl", Problem::SpanOutOfRange { value, min: LEASE_TTL_MIN, max: LEASE_TTL_MAX }))
}

/// A worker says that it is still at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Renewal {
    /// The lease to extend by its `ttl`.
    pub lease: Lease,
    /// How far the handler is, if it said so since the last renewal.
    pub progress: Option<Progress>,
    /// Whether the worker is finding out if it may go on (seed 004); `None`: as it was.
    pub continuation: Option<ContinuationChange>,
}

impl Renewal {
    /// Extends a lease, and nothing else.
    pub fn of(lease: Lease) -> Self {
        Self { lease, progress: None, continuation: None }
    }
}

/// A change of the continuation flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Continuing))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContinuationChange {
    /// The worker must have stopped or confirmed within this time; until then nobody takes the task away.
    Confirming {
        /// From when the store applies it.
        #[serde(
            rename = "within_ms",
            serialize_with = "duration_ms::serialize",
            deserialize_with = "whole::span_ms"
        )]
        #[cfg_attr(feature = "openapi", schema(value_type = u64))]
        within: Duration,
    },
    /// It may go on.
    Continue,
}

/// The answer to a [`Renewal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RenewResult))]
#[serde(rename_all = "snake_case")]
#[must_use = "a lease that was not extended ends: stop its handler in time"]
pub enum Renewed {
    /// The lease lasts its `ttl` from when the request was *sent*.
    Extended,
    /// The task was cancelled: stop the handler, then confirm it.
    Cancelled,
    /// The lease is gone: stop the handler; whatever it reports is refused.
    Lost,
    /// Somebody holds the record right now: the lease is as it was, try again soon.
    Busy,
}
