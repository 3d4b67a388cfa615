//! Leases: acquire, renew, confirm stopped.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::error::{Invalid, Problem};
use weaver_core::id::{Epoch, LeaseToken, TaskKey, Version};
use weaver_core::lease as core;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};

use super::names::{default_name, to_ms};
use super::task_record::task_id;
use super::{Progress, Task};

/// A worker asks for due tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// The namespace; `default` if absent.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Default: the queue `default`.
    #[serde(default = "default_queues")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub queues: Vec<String>,
    /// Task types the worker has handlers for; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// The worker's id, as in its heartbeats.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// 128 random bits in hexadecimal digits, drawn for this call: an idempotency key. A repeated call
    /// returns what the first one leased.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// Tasks to lease at most; default 1.
    #[serde(default = "one")]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub max: u32,
    /// Of these, tasks that must start at once because they lost an attempt, or die with the first lost one;
    /// default `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub slots: Option<u32>,
    /// How long each lease lasts; default 30 s.
    #[serde(default = "default_ttl_ms")]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub ttl_ms: u64,
    /// Long poll: wait at most this long for a task; capped by the server's limit; default 0.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub wait_ms: u64,
}

fn default_queues() -> Vec<String> {
    vec![default_name()]
}

fn one() -> u32 {
    1
}

fn default_ttl_ms() -> u64 {
    to_ms(core::LEASE_TTL_DEFAULT)
}

impl LeaseRequest {
    /// The request as the domain has it; `wait_ms` is not part of it.
    pub fn to_core(&self) -> Result<core::LeaseRequest, Invalid> {
        Ok(core::LeaseRequest {
            namespace: Namespace::try_from(self.namespace.as_str())?,
            queues: names(&self.queues)?,
            types: self.types.as_ref().map(|types| names(types)).transpose()?,
            worker: WorkerId::try_from(self.worker.as_str())?,
            token: token(&self.token)?,
            max: self.max,
            slots: self.slots.unwrap_or(self.max),
            ttl: Duration::from_millis(self.ttl_ms),
            // The server's to decide: it knows whether there is a leader.
            assign_fallback: false,
        })
    }

    /// A request as the domain has it, waiting at most so long.
    pub fn of(request: &core::LeaseRequest, wait: Duration) -> Self {
        let texts = |names: &[TaskType]| names.iter().map(ToString::to_string).collect();
        Self {
            namespace: request.namespace.to_string(),
            queues: request.queues.iter().map(ToString::to_string).collect(),
            types: request.types.as_deref().map(texts),
            worker: request.worker.to_string(),
            token: format!("{:032x}", request.token.0),
            max: request.max,
            slots: Some(request.slots),
            ttl_ms: to_ms(request.ttl),
            wait_ms: to_ms(wait),
        }
    }
}

/// A worker starts tasks that a leader assigned to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StartAssignedRequest {
    /// The namespace; `default` if absent.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// The worker's id, as in its heartbeats.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// 128 random bits in hexadecimal digits, drawn for this call: an idempotency key. A repeated call
    /// returns what the first one started.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// Tasks to start at most; default 1.
    #[serde(default = "one")]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub max: u32,
    /// How long each lease lasts; default 30 s.
    #[serde(default = "default_ttl_ms")]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub ttl_ms: u64,
}

impl StartAssignedRequest {
    /// The request as the domain has it.
    pub fn to_core(&self) -> Result<core::LeaseRequest, Invalid> {
        let (namespace, worker) =
            (Namespace::try_from(self.namespace.as_str())?, WorkerId::try_from(self.worker.as_str())?);
        let (max, ttl) = (self.max, Duration::from_millis(self.ttl_ms));
        // A leader has chosen: the queue does not matter.
        let request = core::LeaseRequest::new(namespace, QueueName::default(), worker, token(&self.token)?);
        Ok(core::LeaseRequest { max, slots: max, ttl, ..request })
    }

    /// A request as the domain has it.
    pub fn of(request: &core::LeaseRequest) -> Self {
        Self {
            namespace: request.namespace.to_string(),
            worker: request.worker.to_string(),
            token: format!("{:032x}", request.token.0),
            max: request.max,
            ttl_ms: to_ms(request.ttl),
        }
    }
}

pub(super) fn names<T>(texts: &[String]) -> Result<Vec<T>, Invalid>
where
    T: for<'a> TryFrom<&'a str, Error = Invalid>,
{
    texts.iter().map(|text| T::try_from(text)).collect()
}

/// Exactly 32 digits: one text per token, and no client draws fewer bits.
fn token(text: &str) -> Result<LeaseToken, Invalid> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| digits).map(LeaseToken).ok_or_else(|| {
        let reason = "a lease token is 32 hexadecimal digits".to_owned();
        Invalid::new("token", Problem::Undecodable { reason })
    })
}

/// The leased tasks; empty if none was due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseResponse {
    /// In the order they should start.
    pub tasks: Vec<LeasedTask>,
    /// How long the server waited before it leased. The leases expire `ttl_ms` after the request was *sent*,
    /// plus this.
    #[serde(default)]
    pub waited_ms: u64,
}

/// A task with its lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeasedTask {
    /// Send it with renewals, reports and log lines.
    pub lease: Lease,
    /// As it was when the lease was granted.
    pub task: Task,
}

impl From<&core::Leased> for LeasedTask {
    fn from(leased: &core::Leased) -> Self {
        Self { lease: Lease::from(&leased.lease), task: Task::from(&leased.record) }
    }
}

impl TryFrom<LeasedTask> for core::Leased {
    type Error = Invalid;

    fn try_from(leased: LeasedTask) -> Result<Self, Invalid> {
        let lease = core::Lease::try_from(leased.lease)?;
        Ok(Self { record: leased.task.into_record(lease.key.clone(), lease.token)?, lease })
    }
}

/// The exclusive right to run one attempt of a task. Send it back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The namespace of the task.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// The `id` of the task.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub id: String,
    /// The task's version while the lease is valid: a fencing token for the systems that its handler writes
    /// to.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub version: u64,
    /// The attempt's number, from 1.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub attempt: u32,
    /// The worker that holds it.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// Proves the holder; bound to the API token that requested the lease.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// The leader's epoch under which the attempt started; 0 for pull dispatch.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub epoch: u64,
    /// How long it lasts after each renewal.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub ttl_ms: u64,
}

impl From<&core::Lease> for Lease {
    fn from(lease: &core::Lease) -> Self {
        Self {
            namespace: lease.key.namespace.to_string(),
            id: lease.key.shown_id().to_string(),
            version: lease.version.0,
            attempt: lease.attempt,
            worker: lease.worker.to_string(),
            token: format!("{:032x}", lease.token.0),
            epoch: lease.epoch.0,
            ttl_ms: to_ms(lease.ttl),
        }
    }
}

impl TryFrom<Lease> for core::Lease {
    type Error = Invalid;

    fn try_from(lease: Lease) -> Result<Self, Invalid> {
        Ok(Self {
            key: TaskKey::of_text(Namespace::new(lease.namespace)?, task_id(&lease.id)?),
            version: Version(lease.version),
            attempt: lease.attempt,
            worker: WorkerId::new(lease.worker)?,
            token: token(&lease.token)?,
            epoch: Epoch(lease.epoch),
            ttl: ttl(lease.ttl_ms)?,
        })
    }
}

/// A lease with a span out of range was never granted.
fn ttl(ms: u64) -> Result<Duration, Invalid> {
    let (value, min, max) = (Duration::from_millis(ms), core::LEASE_TTL_MIN, core::LEASE_TTL_MAX);
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new("ttl", Problem::SpanOutOfRange { value, min, max }))
}

/// Renews leases before they expire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// One per lease; the server limits the batch.
    pub renewals: Vec<Renewal>,
}

/// A worker extends a lease, and may report progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// Extended by its `ttl_ms` from now on.
    pub lease: Lease,
    /// Replaces the task's progress; absent: unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Whether the worker is confirming that it may continue; absent: unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<core::ContinuationChange>,
}

impl TryFrom<Renewal> for core::Renewal {
    type Error = Invalid;

    fn try_from(renewal: Renewal) -> Result<Self, Invalid> {
        let lease = renewal.lease.try_into()?;
        Ok(Self { lease, progress: renewal.progress.map(Into::into), continuation: renewal.continuation })
    }
}

impl From<&core::Renewal> for Renewal {
    fn from(renewal: &core::Renewal) -> Self {
        let progress = renewal.progress.as_ref().map(Progress::from);
        Self { lease: Lease::from(&renewal.lease), progress, continuation: renewal.continuation }
    }
}

/// Results in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenewResponse {
    /// One per renewal; `lost` means stop the handler.
    pub results: Vec<core::Renewed>,
}

/// Handlers of cancelled tasks have stopped: their cancellation holds end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmStoppedRequest {
    /// The leases that the handlers ran under.
    pub leases: Vec<Lease>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_another_clients_task_has_its_text_and_leads_back_to_the_same_task() {
        for text in ["7", "task-001", "a/b c", "18446744073709551615"] {
            let lease = core::Lease {
                key: TaskKey::of_text(Namespace::default(), text),
                version: Version(2),
                attempt: 1,
                worker: WorkerId::new("w").expect("a name"),
                token: LeaseToken(3),
                epoch: Epoch(0),
                ttl: core::LEASE_TTL_DEFAULT,
            };
            let wire = Lease::from(&lease);
            assert_eq!(wire.id, text);
            let back = core::Lease::try_from(wire).expect("it is valid");
            assert_eq!((back.key.shown_id().to_string().as_str(), back), (text, lease));
        }
    }

    #[test]
    fn a_lease_of_what_is_no_id_is_refused() {
        let key = TaskKey::of_text(Namespace::default(), "7");
        let worker = WorkerId::new("w").expect("a name");
        let (token, epoch, ttl) = (LeaseToken(3), Epoch(0), core::LEASE_TTL_DEFAULT);
        let lease = core::Lease { key, version: Version(2), attempt: 1, worker, token, epoch, ttl };
        for id in [String::new(), "a\nb".to_owned(), "x".repeat(256)] {
            let wire = Lease { id, ..Lease::from(&lease) };
            assert_eq!(core::Lease::try_from(wire).expect_err("no id").field, "id");
        }
    }
}
