//! Attempt logs, and the streams that workers append to.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::bytes_text;
use weaver_core::time::Timestamp;

use super::Lease;
use super::names::default_name;

/// Bytes: a string if they are UTF-8 text, otherwise `{"hex": "…"}`.
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
    /// The namespace; `default` if absent.
    #[cfg_attr(feature = "openapi", param(min_length = 1))]
    pub namespace: Option<String>,
    /// Default: the latest. A task that has not started is at attempt 0, whose log is empty.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub attempt: Option<u32>,
    /// Lines after this `seq`.
    pub after: Option<u64>,
    /// The last so many lines (of those after `after`).
    pub last: Option<u32>,
    /// Lines per page; default 1000.
    pub limit: Option<u32>,
    /// Long poll: if there are no lines, wait at most this long for one, or for the attempt to end.
    #[cfg_attr(feature = "openapi", param(minimum = 0))]
    pub wait_ms: Option<u64>,
}

/// Lines of an attempt's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogPage {
    /// The attempt that wrote them.
    pub attempt: u32,
    /// At most `limit`, oldest first.
    pub lines: Vec<LogLine>,
    /// The `after` of the next page.
    pub next: u64,
    /// Whether the next page already has lines.
    pub more: bool,
    /// Whether the attempt has ended: then nothing follows these lines unless `more` is set.
    pub ended: bool,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// Counted from 1, per attempt.
    pub seq: u64,
    /// When the store received it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// One line of output.
    pub body: Body,
}

/// Appends entries to streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AppendRequest {
    /// One per stream; the server limits the batch.
    pub appends: Vec<StreamAppend>,
}

/// Appends to a stream: an attempt's log (`task/{id}/{attempt}`) or the workers' statistics (`stats`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamAppend {
    /// The namespace; `default` if absent.
    #[serde(default = "default_name")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1))]
    pub namespace: String,
    /// Either `task/{id}/{attempt}` or `stats`.
    pub stream: String,
    /// In order; one per line of a log.
    pub entries: Vec<Body>,
    /// The lease of the attempt whose log it is; not for `stats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Drop entries stored before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub trim_before: Option<Timestamp>,
    /// Drop entries with a smaller `seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "weaver_core::json_number::optional_integer")]
    pub trim_before_seq: Option<u64>,
}
