//! Long polls of workers: for work, and for cancellations.

use serde::{Deserialize, Serialize};
use weaver_core::error::Invalid;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::queue::Interest;

use super::lease::names;
use super::names::default_name;

/// Waits until a task may be due, without leasing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitForWork {
    /// The namespace; `default` if absent.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// The queues to wait for; at least one.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub queues: Vec<String>,
    /// Task types to wait for; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Whether to wake for tasks that lost an attempt, or die with the first lost one.
    #[serde(default)]
    pub fragile: bool,
    /// At most this long; capped by the server's limit.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub wait_ms: u64,
}

impl WaitForWork {
    /// The interest as the domain has it; fails on an invalid name.
    pub fn to_core(&self) -> Result<Interest, Invalid> {
        Ok(Interest::Work {
            namespace: Namespace::try_from(self.namespace.as_str())?,
            queues: names(&self.queues)?,
            types: self.types.as_ref().map(|types| names(types)).transpose()?,
            fragile: self.fragile,
        })
    }
}

/// Waits until a leader assigns a task to this worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitForAssigned {
    /// The namespace; `default` if absent.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// The worker's id, as in its heartbeats.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub worker: String,
    /// At most this long; capped by the server's limit.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub wait_ms: u64,
}

impl WaitForAssigned {
    /// The interest as the domain has it; fails on an invalid name.
    pub fn to_core(&self) -> Result<Interest, Invalid> {
        Ok(Interest::Assigned {
            namespace: Namespace::try_from(self.namespace.as_str())?,
            worker: WorkerId::try_from(self.worker.as_str())?,
        })
    }
}

/// Waits until one of the leased tasks is cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitForCancelled {
    /// The leases the worker holds.
    pub leases: Vec<super::Lease>,
    /// At most this long; capped by the server's limit.
    #[serde(deserialize_with = "weaver_core::json_number::integer")]
    pub wait_ms: u64,
}

/// Why a wait for cancellations ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledWaited {
    /// `true`: renew the leases; the response says which task was cancelled. `false`: timed out.
    pub cancelled: bool,
}

/// Why a wait for work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkWaited {
    /// `true`: a lease request may find a task. A hint: another worker may be faster. `false`: timed out.
    pub ready: bool,
}
