//! Periodic verification of past landings: history that was sound may have been tampered with since.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use super::MergeEngine;
use super::error::EngineError;
use crate::domain::QueueId;

/// Links audited against the repository per round. Signatures and hashes are always verified for all links.
const LINKS_PER_ROUND: u64 = 200;

impl MergeEngine {
    /// Verifies the history of every queue, part by part, until `stop` resolves. A queue whose history does
    /// not match its chain is paused.
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
                    tracing::warn!(%problem, "merge queue verification failed; retrying");
                    continue;
                }
            };
            for queue in queues.iter().filter(|queue| queue.chain.is_some() && queue.removal.is_none()) {
                let place = places.entry(queue.id.clone()).or_default();
                // A queue that cannot be read does not stop the others from being verified.
                if let Err(problem) = self.verify_part(&queue.id, place).await {
                    tracing::warn!(queue = %queue.id, %problem, "merge queue verification failed; retrying");
                }
            }
        }
    }

    /// Verifies the next part of a queue's history, and pauses the queue if it is not sound. `place` is the
    /// first link of the part; it advances, and wraps to 0 at the end.
    ///
    /// # Errors
    /// If the store or the repository is unavailable.
    pub async fn verify_part(&self, queue: &QueueId, place: &mut u64) -> Result<(), EngineError> {
        let part = *place..place.saturating_add(LINKS_PER_ROUND);
        let report = self.verify_all(queue, part.clone()).await?;
        let is_last = report.links.iter().all(|link| link.sequence.saturating_add(1) < part.end);
        *place = if is_last { 0 } else { part.end };
        // The tip of the base is compared with the chain by every reconciliation (`plan/foreign.rs`).
        let of_links = report.links.iter().flat_map(|link| {
            link.differences.iter().map(|difference| format!("link {}: {difference}", link.sequence))
        });
        let found: Vec<String> = report.differences.iter().cloned().chain(of_links).collect();
        if found.is_empty() {
            return Ok(());
        }
        tracing::error!(%queue, differences = ?found, "merge queue history does not match its signed chain");
        let reason = format!(
            "its history does not match its signed chain: {}; run `weaver merge verify --all`",
            found.join("; ")
        );
        self.pause(queue, &reason).await
    }
}
