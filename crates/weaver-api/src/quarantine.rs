//! Records that the server cannot read, and tasks in their stored form.

use serde::{Deserialize, Serialize};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::time::Timestamp;

/// A record that the server cannot read. It is left as it is: not leased, not expired, not changed.
///
/// The finding is this server's own: a node of a newer version may read the same record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuarantinedRecord {
    /// What it is.
    pub kind: RecordKind,
    /// Its namespace.
    pub namespace: String,
    /// Its id as stored; of a document `kind/id`.
    pub id: String,
    /// Why it cannot be read, in words.
    pub why: String,
    /// The same for programs.
    pub cause: UnreadableCause,
    /// The format number in the record, if this version of Weaver does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_format: Option<u32>,
    /// The newest format that the server knows, beside `found_format`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_format: Option<u32>,
    /// The queue of a task, if that much can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The state of a task in the store's own word, if that much can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What it keeps held, as far as that can be read.
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
    /// Its format is known, and its contents make no sense.
    Undecodable,
}

/// What an unreadable task keeps held: other tasks wait for it until it is removed, or read by a newer node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Holds {
    /// The serial key: tasks behind it wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_key: Option<String>,
    /// Whether it counts against its queue's concurrency limit.
    pub slot: bool,
}

impl Holds {
    /// Whether other tasks wait for nothing of it.
    pub fn is_empty(&self) -> bool {
        self.serial_key.is_none() && !self.slot
    }
}

impl From<&Quarantined> for QuarantinedRecord {
    fn from(found: &Quarantined) -> Self {
        let (cause, found_format, known_format) = match found.why {
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
            why: found.why.to_string(),
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
    /// Its namespace.
    pub namespace: String,
    /// Its id.
    pub id: String,
    /// Its state, if that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Whether it is readable and has ended: then nothing is lost that still had to be done.
    pub finished: bool,
    /// Why the server cannot read it, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// SHA-256 of `text`, in hexadecimal digits. Also the `ETag` of the answer.
    pub digest: String,
    /// The stored form: JSON as text, of a shape that each store has for itself. It may hold a lease's token.
    pub text: String,
}
