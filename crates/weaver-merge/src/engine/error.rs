//! Errors of the engine.

use crate::domain::{MergeError, QueueId};
use crate::forge::ForgeError;
use crate::keys::KeyError;

/// Why a call to the engine failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Refused by the rules of the queue.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] weaver_core::error::Error),
    /// The repository failed.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// No usable key to sign or verify with.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The queue does not exist.
    #[error("no such merge queue: `{0}`; create it with `weaver merge add-repo`")]
    NoQueue(QueueId),
    /// A document or payload cannot be decoded or encoded.
    #[error("{what} cannot be read: {problem}")]
    Unreadable {
        /// Kind and id of the document.
        what: String,
        /// The decoder's message.
        problem: String,
    },
    /// A defect of Weaver; other queues go on.
    #[error("reconciliation of merge queue `{queue}` failed: {problem}; it is retried, report this defect")]
    Panicked {
        /// The queue it happened to.
        queue: QueueId,
        /// Message of the panic.
        problem: String,
    },
    /// Every optimistic-concurrency retry lost against another process.
    #[error("the merge queue is changing too fast: concurrent updates won every time; retry")]
    Busy,
}

impl EngineError {
    /// Whether a document exists but cannot be decoded, by the engine or by the store.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Store(weaver_core::error::Error::Damaged { .. }))
    }
}
