//! Events that trigger schedules, and the settings of the installation.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::Json;

/// An event to emit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// The namespace; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: Option<String>,
    /// Schedules trigger on exactly this type.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub event_type: String,
    /// Any JSON; `null` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// Deduplicates within the namespace: a second event with this key is not stored while the first is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub dedupe_key: Option<String>,
}

/// The event that was stored, or found by its dedupe key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Emitted {
    /// Its address is `/api/v1/events/{id}`.
    pub id: String,
    /// Whether an event with this dedupe key was already stored; then nothing changed.
    pub existing: bool,
}

/// An event and whether schedules have processed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredEvent {
    /// The namespace it was emitted in.
    pub namespace: String,
    /// Unique in the namespace.
    pub id: String,
    /// The type that schedules trigger on.
    pub event_type: String,
    /// As emitted; `null` if it had none.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Json,
    /// As emitted; absent: not deduplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// When it was stored.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When every schedule it triggers had enqueued its task; absent: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub processed_at: Option<Timestamp>,
}

/// The settings of the installation, shared by all nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settings {
    /// All of them, by name.
    pub items: Vec<Setting>,
}

/// A setting with its value and default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Setting {
    /// Its name, such as `scheduler.paused`.
    pub key: String,
    /// What it changes, in one sentence.
    pub description: String,
    /// The values it takes, in words.
    pub allowed: String,
    /// The value in effect on every node.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub value: Json,
    /// The value if none is set.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub default: Json,
    /// Grows with every change; 0: never set.
    pub version: u64,
    /// When it was last set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub updated_at: Option<Timestamp>,
}

/// A setting's new value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSetting {
    /// `true`, `false` or a whole number, as its `allowed` says.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub value: Json,
    /// Write only if the setting still has this version; absent: unconditionally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub expected_version: Option<u64>,
}

/// Makes a change conditional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExpectedVersionQuery {
    /// Apply only if the setting still has this version; absent: unconditionally.
    pub expected_version: Option<u64>,
}
