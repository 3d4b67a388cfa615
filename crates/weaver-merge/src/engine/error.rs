//! What can go wrong around a queue.

use crate::domain::{MergeError, QueueId};
use crate::forge::ForgeError;
use crate::keys::KeyError;

/// Why an engine did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The queue does not allow it.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The store did not.
    #[error(transparent)]
    Store(#[from] weaver_core::error::Error),
    /// The repository did not.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// There is no key to sign or to verify with.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no such queue.
    #[error("there is no merge queue `{0}`: make it with `weaver merge add-repo`")]
    NoQueue(QueueId),
    /// A document cannot be read.
    #[error("{what} cannot be read: {problem}")]
    Unreadable {
        /// Which.
        what: String,
        /// Why.
        problem: String,
    },
    /// Others kept changing the queue.
    #[error("the queue changed each time it was to be written: try again")]
    Busy,
}

impl EngineError {
    /// Whether a document is there and cannot be read, by the engine or by the store.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Store(weaver_core::error::Error::Damaged { .. }))
    }
}
