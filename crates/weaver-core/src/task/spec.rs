//! The part of a task that never changes after it was accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, Problem};
use crate::id::TaskId;
use crate::name::{
    ExternalId, IdempotencyKey, JobDefinitionId, QueueName, SerialKey, SessionId, TaskGroupId,
};
use crate::retry::RetryPolicy;
use crate::task::TaskEnvelope;
use crate::task::fields::{TRACEPARENT_MAX_BYTES, TRACESTATE_MAX_BYTES};
use crate::time::{Timestamp, optional_duration_ms};

/// Free text that people attach to tasks to find them again.
pub type Labels = BTreeMap<String, String>;

/// From 0, the most urgent, to 9; 5 unless asked otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub(crate) u8);

impl Priority {
    /// Of a task that asks for none.
    pub const NORMAL: Self = Self(5);
    /// The least urgent.
    pub const LOWEST: Self = Self(9);

    /// A priority, if the number is one.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::LOWEST.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// What was asked for, checked. Shared by every copy of the record, so that handing out a lease copies no
/// payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The queue it waits in.
    pub queue: QueueName,
    /// What to do.
    pub envelope: TaskEnvelope,
    /// How urgent.
    pub priority: Priority,
    /// Dead on failure number `max_attempts`.
    pub max_attempts: u32,
    /// Dead on loss number `max_losses + 1`.
    pub max_losses: u32,
    /// How long to wait after a failure.
    pub retry: RetryPolicy,
    /// How long one execution may take; `None`: as long as its lease is renewed.
    #[serde(with = "optional_duration_ms", rename = "timeout_ms")]
    pub timeout: Option<Duration>,
    /// Cancelled if it has not started by then.
    pub expires_at: Option<Timestamp>,
    /// Runs one at a time with others of this key, in order.
    pub serial_key: Option<SerialKey>,
    /// Enqueued once per key.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Where it comes from and belongs to; read it with [`TaskSpec::origin`]. Boxed: most tasks have none of
    /// it, and a million of them wait in memory. Made with [`Origin::boxed`], so that nothing is always
    /// `None`.
    pub origin: Option<Box<Origin>>,
}

impl TaskSpec {
    /// Where the task comes from and belongs to.
    pub fn origin(&self) -> &Origin {
        static NONE: Origin = Origin::none();
        self.origin.as_deref().unwrap_or(&NONE)
    }

    /// The keys under which a second enqueue finds this task (G8).
    pub fn unique_keys(&self) -> impl Iterator<Item = UniqueKey> {
        let origin = self.origin();
        let by_caller = self.idempotency_key.clone().map(UniqueKey::Idempotency);
        let by_schedule = match (&origin.job_definition_id, origin.scheduled_for) {
            (Some(definition), Some(instant)) => Some(UniqueKey::Schedule(definition.clone(), instant)),
            _ => None,
        };
        by_caller.into_iter().chain(by_schedule)
    }

    /// Whether there are any: most tasks have none, and pay only for this look.
    pub fn has_unique_keys(&self) -> bool {
        self.idempotency_key.is_some()
            || self.origin.as_ref().is_some_and(|origin| origin.scheduled_for.is_some())
    }

    /// Whether it may be started only once: its first failure is its last, and so is its first loss.
    pub fn runs_once(&self) -> bool {
        self.max_attempts == 1 && self.max_losses == 0
    }
}

/// A reason why two enqueues are one task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UniqueKey {
    /// The producer said so.
    Idempotency(IdempotencyKey),
    /// One run per job definition and planned instant (seed 004, 2.1).
    Schedule(JobDefinitionId, Timestamp),
}

/// Where a task comes from and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The piece of work it is part of.
    pub task_group_id: Option<TaskGroupId>,
    /// The conversation it is part of.
    pub session_id: Option<SessionId>,
    /// Whatever its producer wants to find it by.
    pub labels: Labels,
    /// The job definition it is a run of.
    pub job_definition_id: Option<JobDefinitionId>,
    /// The planned instant it is the run for.
    pub scheduled_for: Option<Timestamp>,
    /// The terminal task it repeats.
    pub retry_of: Option<TaskId>,
    /// The trace of whoever enqueued it.
    pub trace: Option<TraceContext>,
    /// Its own name, if somebody else's client wrote it.
    pub external_id: Option<ExternalId>,
}

impl Origin {
    const fn none() -> Self {
        Self {
            task_group_id: None,
            session_id: None,
            labels: BTreeMap::new(),
            job_definition_id: None,
            scheduled_for: None,
            retry_of: None,
            trace: None,
            external_id: None,
        }
    }

    /// Boxed only if there is anything in it.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::none()).then(|| Box::new(self))
    }
}

/// W3C trace context, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// `traceparent`.
    pub traceparent: String,
    /// `tracestate`, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Refuses what is no header: too long, or not printable ASCII.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let headers = [
            ("traceparent", Some(&self.traceparent), TRACEPARENT_MAX_BYTES),
            ("tracestate", self.tracestate.as_ref(), TRACESTATE_MAX_BYTES),
        ];
        for (field, text, max_bytes) in headers {
            let Some(text) = text else { continue };
            if text.len() > max_bytes {
                return Err(Invalid::new(field, Problem::TooLong { bytes: text.len(), max_bytes }));
            }
            if let Some(at_byte) = text.bytes().position(|byte| !(b' '..=b'~').contains(&byte)) {
                return Err(Invalid::new(field, Problem::ControlCharacter { at_byte }));
            }
        }
        Ok(())
    }
}
