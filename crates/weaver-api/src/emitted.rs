//! Events that schedules wait for, and the settings of the whole installation.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::Json;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    /// `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: Option<String>,
    /// What happened: schedules wait for exactly this.
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub event_type: String,
    /// What there is to know about it: any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Option<Json>,
    /// A second event with this key in the namespace is the first one, for as long as that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub dedupe_key: Option<String>,
}

/// The answer to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Emitted {
    /// Its id.
    pub id: String,
    /// Whether one with its key was there before, and this one changed nothing.
    pub existing: bool,
}

/// An event that was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredEvent {
    /// Where.
    pub namespace: String,
    /// Its id.
    pub id: String,
    /// What happened.
    pub event_type: String,
    /// What there is to know about it.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub payload: Json,
    /// What makes it unique, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// When it was stored.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When the schedules that wait for it had their tasks; none: not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub processed_at: Option<Timestamp>,
}

/// The settings of the whole installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settings {
    /// All of them, by name.
    pub items: Vec<Setting>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// What it is for.
    pub about: String,
    /// What can be set.
    pub accepts: String,
    /// What holds.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub value: Json,
    /// What holds if nothing is set.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub default: Json,
    /// Grows with every change; 0: never set.
    pub version: u64,
    /// When it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub updated_at: Option<Timestamp>,
}

/// A setting to be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSetting {
    /// What is to hold: `true`, `false` or a whole number, as its `accepts` says.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub value: Json,
    /// The version that was read; any, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub expected_version: Option<u64>,
}

/// A change that may insist on a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ExpectedVersionQuery {
    /// The version that was read; any, if not given.
    pub expected_version: Option<u64>,
}
