//! The line format of an export: one JSON object per line, whose only member names its kind.
//! `docs/operating/embedded.md` shows an example of each.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weaver_core::bytes_text;
use weaver_core::id::{TaskId, Version};
use weaver_core::name::{IdempotencyKey, JobDefinitionId, Namespace, QueueName};
use weaver_core::ports::QueueSettings;
use weaver_core::task::{TaskRecord, UniqueKey};
use weaver_core::time::Timestamp;

/// The version of the line format.
pub(super) const EXPORT_VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The header: the first line of every export.
    WeaverExport {
        version: u32,
        written_at: Timestamp,
        in_time_order: bool,
    },
    Queue {
        namespace: Namespace,
        name: QueueName,
        settings: QueueSettings,
        version: Version,
    },
    Task(Box<TaskRecord>),
    Unique {
        namespace: Namespace,
        key: UniqueName,
        task: TaskId,
        until: Timestamp,
    },
    Document {
        namespace: Namespace,
        kind: String,
        id: String,
        version: Version,
        due: Option<Timestamp>,
        updated_at: Timestamp,
        #[serde(with = "bytes_text")]
        body: Bytes,
    },
    /// A journal stream; its entries follow.
    Stream {
        namespace: Namespace,
        name: String,
        last: u64,
    },
    Entry {
        namespace: Namespace,
        stream: String,
        seq: u64,
        at: Timestamp,
        #[serde(with = "bytes_text")]
        body: Bytes,
    },
    /// The end marker: without it, the export is truncated.
    End {
        lines: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UniqueName {
    Idempotency(IdempotencyKey),
    Schedule { job_definition_id: JobDefinitionId, scheduled_for: Timestamp },
}

impl From<UniqueName> for UniqueKey {
    fn from(name: UniqueName) -> Self {
        match name {
            UniqueName::Idempotency(key) => Self::Idempotency(key),
            UniqueName::Schedule { job_definition_id, scheduled_for } => {
                Self::Schedule(job_definition_id, scheduled_for)
            }
        }
    }
}

impl From<UniqueKey> for UniqueName {
    fn from(key: UniqueKey) -> Self {
        match key {
            UniqueKey::Idempotency(key) => Self::Idempotency(key),
            UniqueKey::Schedule(job_definition_id, scheduled_for) => {
                Self::Schedule { job_definition_id, scheduled_for }
            }
        }
    }
}
