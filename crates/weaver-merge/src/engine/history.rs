//! The history of landings, looked at again every so often: what was sound when it landed may have been
//! changed since.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use super::MergeEngine;
use super::error::EngineError;
use crate::domain::QueueId;

/// How many landings are made again from their parents in one round. Signatures and hashes are checked for
/// the whole chain.
const LINKS_PER_ROUND: u64 = 200;

impl MergeEngine {
    /// Verifies the history of every queue, part by part, until told to stop. A queue whose history is not as
    /// its chain says is paused.
    pub async fn watch_history(&self, every: Duration, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        let mut places = HashMap::new();
        loop {
            let next = self.clock.monotonic().saturating_add(every);
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.clock.sleep_until(next) => {}
            }
            let queues = match self.queues().await {
                Ok(queues) => queues,
                Err(problem) => {
                    tracing::warn!(%problem, "the histories of merge queues could not be verified");
                    continue;
                }
            };
            for queue in queues.iter().filter(|queue| queue.chain.is_some()) {
                let place = places.entry(queue.id.clone()).or_default();
                // One queue that cannot be read does not keep the others from being looked at.
                if let Err(problem) = self.verify_part(&queue.id, place).await {
                    tracing::warn!(queue = %queue.id, %problem, "the history of a merge queue could not be verified");
                }
            }
        }
    }

    /// Verifies the next part of a queue's history, and pauses the queue if it is not sound. `place` is where
    /// the part begins; it goes on, and round again.
    ///
    /// # Errors
    /// If the store or the repository cannot be asked.
    pub async fn verify_part(&self, queue: &QueueId, place: &mut u64) -> Result<(), EngineError> {
        let part = *place..place.saturating_add(LINKS_PER_ROUND);
        let report = self.verify_all(queue, part.clone()).await?;
        let is_last = report.links.iter().all(|link| link.sequence.saturating_add(1) < part.end);
        *place = if is_last { 0 } else { part.end };
        // Where the base is now is compared with the chain whenever the queue is looked at
        // (`plan/foreign.rs`).
        let of_links = report.links.iter().flat_map(|link| {
            link.differences.iter().map(|difference| format!("link {}: {difference}", link.sequence))
        });
        let found: Vec<String> = report.differences.iter().cloned().chain(of_links).collect();
        if found.is_empty() {
            return Ok(());
        }
        tracing::error!(%queue, differences = ?found, "the history of a merge queue is not what its chain says");
        let reason = format!(
            "its history is not what the chain of landings says: {}; look at `weaver merge verify --all`",
            found.join("; ")
        );
        self.pause(queue, &reason).await
    }
}
