//! Waiting for work without taking it.

use serde::{Deserialize, Serialize};
use weaver_core::error::Invalid;
use weaver_core::name::Namespace;
use weaver_core::queue::Interest;

use super::lease::names;
use super::names::default_name;

/// Waits until there may be something to lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitForWork {
    /// Where; `default` if not given.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// In which queues.
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub queues: Vec<String>,
    /// Of which types; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Whether tasks count that were lost before or may not be lost.
    #[serde(default)]
    pub fragile: bool,
    /// At most so long; the server's own limit if more.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub wait_ms: u64,
}

impl WaitForWork {
    /// What is waited for, as the domain has it.
    pub fn to_core(&self) -> Result<Interest, Invalid> {
        Ok(Interest::Work {
            namespace: Namespace::try_from(self.namespace.as_str())?,
            queues: names(&self.queues)?,
            types: self.types.as_ref().map(|types| names(types)).transpose()?,
            fragile: self.fragile,
        })
    }
}

/// Waits until one of the tasks in hand is cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WaitForCancelled {
    /// The leases in hand.
    pub leases: Vec<super::Lease>,
    /// At most so long; the server's own limit if more.
    #[serde(deserialize_with = "weaver_core::whole::number")]
    pub wait_ms: u64,
}

/// Why a wait for a cancellation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledWaited {
    /// Whether one of them was cancelled: renew them, and the answer says which.
    pub cancelled: bool,
}

/// Why a wait for work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkWaited {
    /// Whether there may be something; a hint for this caller, who should act on it.
    pub ready: bool,
}
