//! Leases: a worker's exclusive right to run a task, for a limited time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem};
use crate::id::{Epoch, LeaseToken, TaskKey, Version};
use crate::json_number;
use crate::name::{Namespace, QueueName, TaskType, WorkerId};
use crate::task::{DispatchFilter, Progress, TaskRecord};
use crate::time::duration_ms;

/// How long a lease lasts by default.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest lease: a shorter one would expire in any pause of the process.
pub const LEASE_TTL_MIN: Duration = Duration::from_millis(10);
/// The longest lease, and so the longest time that the task of a crashed worker stays stranded (G3).
pub const LEASE_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// The most tasks of one lease call.
pub const LEASE_BATCH_MAX: u32 = 1000;

/// The right to run one attempt of one task. Every write made under it is conditional on `version` (G2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The task to which it gives the right.
    pub key: TaskKey,
    /// The fencing token: the record's version while this lease is valid. It only grows per task: pass it to
    /// the systems your handler writes to, and let them refuse a smaller one.
    pub version: Version,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The worker that holds it.
    pub worker: WorkerId,
    /// The token of the lease call that granted it; a secret of the holder.
    pub token: LeaseToken,
    /// The leader's epoch the attempt started under; 0 for pull.
    pub epoch: Epoch,
    /// How long it lasts from each renewal. The holder must count from *before* it sent the request.
    pub ttl: Duration,
}

/// A lease with what its holder needs to run the task and to decide its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Leased {
    /// Every report and renewal is made under it.
    pub lease: Lease,
    /// The task as it was when the lease was granted.
    pub record: TaskRecord,
}

/// Seed 002's name for what a worker gets: the envelope with its lease, and no structure of the queue.
#[doc(hidden)]
pub type TaskLease = Leased;

/// A worker's request for tasks.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Only tasks of this namespace are leased.
    pub namespace: Namespace,
    /// Queues to lease from, at least one; their order does not matter, G7 decides.
    pub queues: Vec<QueueName>,
    /// Only tasks of these types; `None`: of any.
    pub types: Option<Vec<TaskType>>,
    /// The worker that becomes the holder.
    pub worker: WorkerId,
    /// 128 random bits, generated for this call; a retry of the call sends the same.
    pub token: LeaseToken,
    /// The most tasks to lease, from 1 to [`LEASE_BATCH_MAX`].
    pub max: u32,
    /// The most of them that may be fragile (lost before, or allowed no loss at all): the worker must start
    /// these at once.
    pub slots: u32,
    /// How long each lease lasts, from [`LEASE_TTL_MIN`] to [`LEASE_TTL_MAX`].
    pub ttl: Duration,
    /// Also tasks that a leader would assign: there has been none for long, and the settings allow it.
    pub assign_fallback: bool,
}

impl LeaseRequest {
    /// One task of any type from one queue, for [`LEASE_TTL_DEFAULT`].
    pub fn new(namespace: Namespace, queue: QueueName, worker: WorkerId, token: LeaseToken) -> Self {
        let ttl = LEASE_TTL_DEFAULT;
        Self {
            namespace,
            queues: vec![queue],
            types: None,
            worker,
            token,
            max: 1,
            slots: 1,
            ttl,
            assign_fallback: false,
        }
    }

    /// Of which dispatch it requests tasks.
    pub fn dispatch(&self) -> DispatchFilter {
        if self.assign_fallback { DispatchFilter::Any } else { DispatchFilter::Pulled }
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

/// Refuses a `ttl` outside [`LEASE_TTL_MIN`] and [`LEASE_TTL_MAX`].
pub(crate) fn check_ttl(value: Duration) -> Result<(), Invalid> {
    if (LEASE_TTL_MIN..=LEASE_TTL_MAX).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new("ttl", Problem::SpanOutOfRange { value, min: LEASE_TTL_MIN, max: LEASE_TTL_MAX }))
}

/// A worker's request to extend a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Renewal {
    /// The lease to extend by its `ttl`.
    pub lease: Lease,
    /// The handler's progress, if it reported any since the last renewal.
    pub progress: Option<Progress>,
    /// Whether the worker is confirming that it may continue (seed 004); `None`: unchanged.
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
    /// The worker must have stopped or confirmed within this time; until then the lease does not expire.
    Confirming {
        /// Milliseconds from when the store applies it.
        #[serde(
            rename = "within_ms",
            serialize_with = "duration_ms::serialize",
            deserialize_with = "json_number::duration_ms"
        )]
        #[cfg_attr(feature = "openapi", schema(value_type = u64))]
        within: Duration,
    },
    /// The worker has confirmed that it may continue.
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
    /// The lease was lost: stop the handler; its report would be refused (fencing).
    Lost,
    /// Another write locks the record: the lease is unchanged, retry soon.
    Busy,
}
