//! Quarantined records, and tasks in their stored form.

use serde::{Deserialize, Serialize};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::time::Timestamp;

/// A record that this server cannot read. It is left untouched: not leased, not expired, not changed.
///
/// Each server decides for itself: a node of a newer version may read the same record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuarantinedRecord {
    /// The type of record.
    pub kind: RecordKind,
    /// The namespace it is stored in.
    pub namespace: String,
    /// As stored; of a document `kind/id`.
    pub id: String,
    /// Why it cannot be read, for people.
    pub reason: String,
    /// The same for programs.
    pub cause: UnreadableCause,
    /// The record's format number, if this version of Weaver does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_format: Option<u32>,
    /// The newest format that the server knows, with `found_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_format: Option<u32>,
    /// The queue of a task, if that much is readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The stored state of a task, if that much is readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What it blocks, as far as that is readable.
    pub holds: Holds,
    /// When this server found it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub found_at: Timestamp,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnreadableCause {
    /// A newer Weaver wrote it. Not damage: a node of that version reads it.
    UnknownFormat,
    /// Its format is known and its contents are invalid.
    Undecodable,
}

/// What an unreadable task blocks until it is removed, or a newer node reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holds {
    /// Other tasks of this serial key wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_key: Option<String>,
    /// Whether it takes a slot of its queue's concurrency limit.
    pub slot: bool,
}

impl Holds {
    /// Whether it blocks nothing.
    pub fn is_empty(&self) -> bool {
        self.serial_key.is_none() && !self.slot
    }
}

impl From<&Quarantined> for QuarantinedRecord {
    fn from(found: &Quarantined) -> Self {
        let (cause, found_format, known_format) = match found.reason {
            Unreadable::UnknownFormat { found, known } => {
                (UnreadableCause::UnknownFormat, Some(found), Some(known))
            }
            Unreadable::Undecodable { .. } => (UnreadableCause::Undecodable, None, None),
        };
        let serial_key = found.serial_key.as_ref().map(ToString::to_string);
        Self {
            kind: found.kind,
            namespace: found.namespace.to_string(),
            id: found.id.clone(),
            reason: found.reason.to_string(),
            cause,
            found_format,
            known_format,
            queue: found.queue.as_ref().map(ToString::to_string),
            state: found.state.clone(),
            holds: Holds { serial_key, slot: found.holds_slot },
            found_at: found.found_at,
        }
    }
}

/// A task in its stored form, readable or not. Removing it takes `digest` as `If-Match`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RawTask {
    /// The namespace it is stored in.
    pub namespace: String,
    /// As in its URL.
    pub id: String,
    /// The stored state, if that is readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether it is readable and in a final state: then removing it loses no work.
    pub finished: bool,
    /// Why the server cannot read it; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// SHA-256 of `text` in hexadecimal digits; also the `ETag` of the response.
    pub digest: String,
    /// The stored form as JSON text, in a shape that depends on the store. It may contain a lease token.
    pub text: String,
}
