//! Leases: taking them, keeping them, giving them up.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weaver_core::error::{Invalid, Problem};
use weaver_core::id::{Epoch, LeaseToken, TaskKey, Version};
use weaver_core::lease as core;
use weaver_core::name::{Namespace, TaskType, WorkerId};

use super::names::{default_name, to_ms};
use super::task_record::task_id;
use super::{Progress, Task};

/// A worker asks for tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// Where from; `default` if not given.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// From which queues; `default` if not given.
    #[serde(default = "default_queues")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub queues: Vec<String>,
    /// Only of these types; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Who asks.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// 128 random bits in hexadecimal digits, drawn for this call. Repeating the call returns what it
    /// granted.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// At most so many tasks; 1 if not given.
    #[serde(default = "one")]
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub max: u32,
    /// At most so many of them that were lost before or may not be lost, and must start at once; `max` if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub slots: Option<u32>,
    /// How long each lease lasts; 30 s if not given.
    #[serde(default = "default_ttl_ms")]
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub ttl_ms: u64,
    /// Wait at most so long for a task, if there is none; the server's own limit if more; 0 if not given.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::whole::number")]
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

pub(super) fn names<T>(texts: &[String]) -> Result<Vec<T>, Invalid>
where
    T: for<'a> TryFrom<&'a str, Error = Invalid>,
{
    texts.iter().map(|text| T::try_from(text)).collect()
}

/// Exactly 32 digits: one text per token, and nobody is tempted to draw fewer.
fn token(text: &str) -> Result<LeaseToken, Invalid> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| digits).map(LeaseToken).ok_or_else(|| {
        let reason = "a lease token is 32 hexadecimal digits".to_owned();
        Invalid::new("token", Problem::Undecodable { reason })
    })
}

/// What was leased; empty if there was nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseResponse {
    /// The tasks, in the order they should start.
    pub tasks: Vec<LeasedTask>,
    /// How long the server waited for them. Leases last their `ttl_ms` from so long after the request was
    /// *sent*.
    #[serde(default)]
    pub waited_ms: u64,
}

/// A lease with the task it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeasedTask {
    /// The right to run it.
    pub lease: Lease,
    /// The task as it was when the lease was granted.
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
        Ok(Self { record: leased.task.into_record(lease.token)?, lease })
    }
}

/// The right to run one attempt of one task. Send it back as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The task's namespace.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// The task's id.
    #[cfg_attr(feature = "openapi", schema(pattern = "^(0|[1-9][0-9]{0,18})$"))]
    pub id: String,
    /// The task's version while the lease is valid: a fence for systems its handler writes to.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub version: u64,
    /// Which attempt this is, from 1.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub attempt: u32,
    /// The holder.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// The holder's proof.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-fA-F]{32}$"))]
    pub token: String,
    /// The leader's epoch the attempt started under; 0 for pull.
    #[serde(default)]
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub epoch: u64,
    /// How long it lasts from each renewal.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub ttl_ms: u64,
}

impl From<&core::Lease> for Lease {
    fn from(lease: &core::Lease) -> Self {
        Self {
            namespace: lease.key.namespace.to_string(),
            id: lease.key.id.to_string(),
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
            key: TaskKey::new(Namespace::new(lease.namespace)?, task_id(&lease.id)?),
            version: Version(lease.version),
            attempt: lease.attempt,
            worker: WorkerId::new(lease.worker)?,
            token: token(&lease.token)?,
            epoch: Epoch(lease.epoch),
            ttl: ttl(lease.ttl_ms)?,
        })
    }
}

/// A lease that comes back with another span than it can have was never granted.
fn ttl(ms: u64) -> Result<Duration, Invalid> {
    let (value, min, max) = (Duration::from_millis(ms), core::LEASE_TTL_MIN, core::LEASE_TTL_MAX);
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new("ttl", Problem::SpanOutOfRange { value, min, max }))
}

/// Extends leases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Which.
    pub renewals: Vec<Renewal>,
}

/// A worker says that it is still at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The lease to extend by its `ttl_ms`.
    pub lease: Lease,
    /// How far the handler is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Whether the worker is finding out if it may go on; absent: as it was.
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

/// The answers, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenewResponse {
    /// One for each.
    pub results: Vec<core::Renewed>,
}

/// Handlers of cancelled tasks have stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfirmStoppedRequest {
    /// The leases they ran under.
    pub leases: Vec<Lease>,
}
