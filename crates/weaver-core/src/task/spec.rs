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
use crate::task::fields::{TRACEPARENT_MAX_BYTES, TRACESTATE_MAX_BYTES};
use crate::task::{Dispatch, TaskEnvelope};
use crate::time::{Timestamp, optional_duration_ms};

/// Labels by name: free text by which producers find their tasks. At most
/// [`LABELS_MAX`](crate::task::fields::LABELS_MAX).
pub type Labels = BTreeMap<String, String>;

/// From 0, the most urgent, to 9; 5 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub(crate) u8);

impl Priority {
    /// 5, the priority of a task that requests none.
    pub const NORMAL: Self = Self(5);
    /// 9, the least urgent.
    pub const LOWEST: Self = Self(9);

    /// `None` if the number is above 9.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::LOWEST.0 { Some(Self(number)) } else { None }
    }

    /// From 0 to 9; a lower number is leased first.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// What was submitted, after validation. Shared by every copy of the record, so that granting a lease copies
/// no payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The queue it waits in.
    pub queue: QueueName,
    /// The type that selects the handler, and the payload.
    pub envelope: TaskEnvelope,
    /// Lower numbers are leased first, even if others have been due longer.
    pub priority: Priority,
    /// Dead on failure number `max_attempts`.
    pub max_attempts: u32,
    /// Dead on loss number `max_losses + 1`.
    pub max_losses: u32,
    /// The backoff after a failed attempt.
    pub retry: RetryPolicy,
    /// The longest one attempt may take; `None`: as long as its lease is renewed.
    #[serde(with = "optional_duration_ms", rename = "timeout_ms")]
    pub timeout: Option<Duration>,
    /// Cancelled if it has not started by then, by the wall clock.
    pub expires_at: Option<Timestamp>,
    /// Tasks with the same key in a namespace run one at a time, in order of their ids.
    pub serial_key: Option<SerialKey>,
    /// A second enqueue with the same key in the namespace returns this task (G8).
    pub idempotency_key: Option<IdempotencyKey>,
    /// Group, session, labels, schedule and trace; read it with [`TaskSpec::origin`]. Boxed, because most
    /// tasks have none of it and millions may wait in memory. Made with [`Origin::boxed`], so that an empty
    /// origin is always `None`.
    pub origin: Option<Box<Origin>>,
}

impl TaskSpec {
    /// The origin; an empty one if the task has none.
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

    /// Whether [`unique_keys`](Self::unique_keys) yields any, without cloning one.
    pub fn has_unique_keys(&self) -> bool {
        self.idempotency_key.is_some()
            || self.origin.as_ref().is_some_and(|origin| origin.scheduled_for.is_some())
    }

    /// Who chooses its worker, if it says so itself.
    pub fn dispatch(&self) -> Option<Dispatch> {
        self.origin.as_ref().and_then(|origin| origin.dispatch)
    }

    /// Whether it may be started only once: its first failure is its last, and so is its first loss.
    pub fn runs_once(&self) -> bool {
        self.max_attempts == 1 && self.max_losses == 0
    }
}

/// A key that makes two enqueues one task (G8).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UniqueKey {
    /// The idempotency key that the producer chose.
    Idempotency(IdempotencyKey),
    /// One run per job definition and planned instant (seed 004, 2.1).
    Schedule(JobDefinitionId, Timestamp),
}

/// What a task belongs to and what created it. All of it is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The group it is listed under.
    pub task_group_id: Option<TaskGroupId>,
    /// The agent conversation it is part of.
    pub session_id: Option<SessionId>,
    /// Free text to find it by.
    pub labels: Labels,
    /// The schedule it is a run of.
    pub job_definition_id: Option<JobDefinitionId>,
    /// The planned instant of that run.
    pub scheduled_for: Option<Timestamp>,
    /// The terminal task of which it is a retry.
    pub retry_of: Option<TaskId>,
    /// The id of that task as another client wrote it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of_external_id: Option<ExternalId>,
    /// The W3C trace context of its producer.
    pub trace: Option<TraceContext>,
    /// The string id of an item that another client wrote into the store's tables.
    pub external_id: Option<ExternalId>,
    /// Who chooses its worker, if its schedule says so; `None`: as its queue says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatch>,
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
            retry_of_external_id: None,
            trace: None,
            external_id: None,
            dispatch: None,
        }
    }

    /// The id of the task of which it is a retry, as people and other clients know it.
    pub fn shown_retry_of(&self) -> Option<String> {
        let theirs = self.retry_of_external_id.as_ref().map(ToString::to_string);
        theirs.or_else(|| self.retry_of.map(|id| id.to_string()))
    }

    /// `None` if it is empty.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::none()).then(|| Box::new(self))
    }
}

/// W3C trace context, passed on unparsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The `traceparent` header: printable ASCII of at most [`TRACEPARENT_MAX_BYTES`] bytes.
    pub traceparent: String,
    /// The `tracestate` header, at most [`TRACESTATE_MAX_BYTES`] bytes.
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
