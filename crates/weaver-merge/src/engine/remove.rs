//! Removes queues. The mark is stored here; the rest is planned, so that any engine continues after a crash.

use super::commands::TRIES_MAX;
use super::{EngineError, MergeEngine};
use crate::domain::{MergeQueue, QueueId, RemoveOptions};
use crate::forge::ForgeError;

impl MergeEngine {
    /// Removes a queue: cancels its entries and their tasks, and publishes what is left to publish. Its
    /// history and signed chain stay readable. Repeating it is harmless.
    ///
    /// Returns the queue with its mark. If its removal is not complete (the store failed in between), any
    /// engine completes it.
    ///
    /// # Errors
    /// [`MergeError::OpenEntries`](crate::domain::MergeError::OpenEntries) without `cancel_entries`, and
    /// [`MergeError::Landing`](crate::domain::MergeError::Landing) while an entry is ready.
    pub async fn remove_queue(
        &self,
        id: &QueueId,
        options: &RemoveOptions,
    ) -> Result<MergeQueue, EngineError> {
        self.mark_removed(id, options).await?;
        match Box::pin(self.reconcile(id)).await {
            Ok(_) | Err(EngineError::NoQueue(_)) => {}
            Err(problem) => {
                tracing::warn!(queue = %id, %problem, "removal of the merge queue is not complete; retrying");
            }
        }
        // Its reconciler ends, and other queues may use what it occupied.
        self.was_changed(id);
        Ok(self.get(id).await?.queue)
    }

    async fn mark_removed(&self, id: &QueueId, options: &RemoveOptions) -> Result<(), EngineError> {
        for _ in 0..TRIES_MAX {
            let mut stored = self.get(id).await?;
            let mut next = stored.queue.clone();
            let can_land = self.can_land(&next).await;
            next.begin_removal(options, can_land, self.clock.now())?;
            if next == stored.queue {
                return Ok(());
            }
            // A queue that breaks an invariant can be removed too.
            let is_saved = match next.validate_after(&stored.queue) {
                Ok(()) => self.save(&mut stored, next).await?,
                Err(_) => {
                    let namespace = &self.options.namespace;
                    self.documents.save_unchecked(namespace, stored.version, &next).await?
                }
            };
            if is_saved {
                return Ok(());
            }
        }
        Err(EngineError::Busy)
    }

    /// Whether a ready entry could land: not if its branch or repository is gone.
    async fn can_land(&self, queue: &MergeQueue) -> bool {
        if !queue.entries.iter().any(crate::domain::QueueEntry::is_landing) {
            return false;
        }
        let tip = self.forges.open(&queue.repository).tip(&queue.base_branch).await;
        !matches!(tip, Ok(None) | Err(ForgeError::NotFound(_)))
    }
}
