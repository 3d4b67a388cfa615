//! Publishes the outbox: events and notifications, after the change is stored. A notice is removed only once
//! it is published (at-least-once).

use super::{
    Certificate, EngineError, EntryDetail, Event, JournalEvent, MergeEngine, VersionedQueue, event_stream,
};
use crate::domain::{EntryOutcome, MergeQueue, Notice};

impl MergeEngine {
    /// Publishes the outbox; true if there was anything.
    pub(super) async fn publish(&self, stored: &mut VersionedQueue) -> Result<bool, EngineError> {
        let notices = stored.queue.outbox.clone();
        if notices.is_empty() {
            return Ok(false);
        }
        let mut problems = Vec::new();
        for notice in &notices {
            problems.extend(self.publish_notice(&stored.queue, notice).await?);
        }
        let mut next = stored.queue.clone();
        next.outbox.retain(|notice| !notices.contains(notice));
        // A queue that is being removed lands nothing more.
        let is_live = next.removal.is_none();
        for problem in problems.into_iter().filter(|_| is_live) {
            next.pause(problem, self.clock.now());
        }
        // On a conflict, the remaining notices are published again. A corrupted queue keeps its outbox until
        // an operator repairs it.
        if next.validate().is_ok() {
            self.save(stored, next).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Publishes one notice; returns why the queue must pause, if it must.
    async fn publish_notice(
        &self,
        queue: &MergeQueue,
        notice: &Notice,
    ) -> Result<Option<String>, EngineError> {
        let mut problem = None;
        if let Notice::Completed { entry, outcome, link } = notice {
            let mut certificate = None;
            match (outcome, link) {
                (EntryOutcome::Landed, Some(link)) => {
                    let differences;
                    (certificate, differences) = match self.audit_landing(queue, link).await {
                        // The repository of a queue that is being removed may be gone.
                        Err(EngineError::Forge(error)) if queue.removal.is_some() => {
                            tracing::warn!(queue = %queue.id, %error, "the last landing was not audited");
                            (self.certificate(queue, link).await?, Vec::new())
                        }
                        audited => audited?,
                    };
                    problem = (!differences.is_empty())
                        .then(|| format!("what landed is not what was tested: {}", differences.join("; ")));
                }
                // From a version without links.
                (EntryOutcome::Landed, None) => certificate = Certificate::of(queue, entry, None),
                (EntryOutcome::Removed(_), _) => {
                    let forge = self.forges.open(&queue.repository);
                    match forge.clear_trigger(&entry.pull_request.id).await {
                        Err(error) if queue.removal.is_some() => {
                            tracing::warn!(queue = %queue.id, %error, "the trigger of a change stays");
                        }
                        cleared => cleared?,
                    }
                }
            }
            // The final document: other processes may have written one for a queue that was not saved.
            let (entry, outcome) = ((**entry).clone(), Some(outcome.clone()));
            let detail = EntryDetail { entry, outcome, certificate };
            self.documents.put_entry(&self.options.namespace, &queue.id, &detail).await?;
        }
        let event = Event::of(notice);
        let key = event.key(queue);
        let written = JournalEvent { queue: queue.id.clone(), key: key.clone(), event };
        // Plain data: encoding cannot fail.
        let body = serde_json::to_vec(&written).unwrap_or_default();
        let stream = event_stream(&self.options.namespace, &queue.id);
        self.store.append_entries(&stream, &[body.into()]).await?;
        self.published.send_modify(|count| *count += 1);
        self.options.notifications.send(&*self.store, self.namespace_of(queue), queue, notice, &key).await?;
        Ok(problem)
    }
}
