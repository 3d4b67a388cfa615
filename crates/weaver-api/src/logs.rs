//! Attempt logs and other streams.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::bytes_text;
use weaver_core::time::Timestamp;

use super::Lease;
use super::names::default_name;

/// Bytes: a string where they are text, else `{"hex": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Body(#[serde(with = "bytes_text")] pub Bytes);

#[cfg(feature = "openapi")]
mod body_schema {
    use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
    use utoipa::openapi::{RefOr, schema::AdditionalProperties};

    impl utoipa::PartialSchema for super::Body {
        fn schema() -> RefOr<Schema> {
            let text = ObjectBuilder::new().schema_type(Type::String);
            let digits = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^([0-9a-fA-F]{2})*$"));
            let hex = ObjectBuilder::new()
                .schema_type(Type::Object)
                .property("hex", digits)
                .required("hex")
                .additional_properties(Some(AdditionalProperties::FreeForm(true)));
            OneOfBuilder::new().item(text).item(hex).into()
        }
    }

    impl utoipa::ToSchema for super::Body {}
}

/// Which lines of an attempt's log. Without `after` and `last`: from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// The namespace; `default` if not given.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Of this attempt; of the latest if not given. A task that has not started is at attempt 0, which
    /// printed nothing.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub attempt: Option<u32>,
    /// After the line of this number.
    pub after: Option<u64>,
    /// The last so many (of those after `after`).
    pub last: Option<u32>,
    /// How many lines at most; 1000 if not given.
    pub limit: Option<u32>,
    /// If there are none, wait at most so long for one, or for the attempt to end.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub wait_ms: Option<u64>,
}

/// Lines of an attempt's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogPage {
    /// The attempt they belong to.
    pub attempt: u32,
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// The `after` to go on with.
    pub next: u64,
    /// Whether there are more already.
    pub more: bool,
    /// Whether the attempt has ended: then no line follows these, unless `more` says so.
    pub ended: bool,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was stored.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// What it says.
    pub body: Body,
}

/// Adds to streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// To which, and what.
    pub appends: Vec<StreamAppend>,
}

/// Adds to a stream: an attempt's log (`task/{id}/{attempt}`) or the workers' statistics (`stats`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamAppend {
    /// Where; `default` if not given.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Which.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^(stats|task/(0|[1-9][0-9]{0,18})/(0|[1-9][0-9]{0,8}))$")
    )]
    pub stream: String,
    /// What.
    pub entries: Vec<Body>,
    /// The lease of the attempt whose log it is, as it came; not for `stats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Forget entries stored before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub trim_before: Option<Timestamp>,
    /// Forget entries with a smaller number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::whole::optional")]
    pub trim_before_seq: Option<u64>,
}
