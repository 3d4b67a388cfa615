//! Telling what happened, after it was stored: the outbox is emptied only once everybody was told.

use super::{Certificate, EngineError, Event, MergeEngine, Stored, Written, event_stream};
use crate::domain::{Departure, MergeQueue, Notice};

impl MergeEngine {
    /// Tells what is in the outbox; says whether there was anything.
    pub(super) async fn publish(&self, stored: &mut Stored) -> Result<bool, EngineError> {
        let notices = stored.queue.outbox.clone();
        if notices.is_empty() {
            return Ok(false);
        }
        let mut problems = Vec::new();
        for notice in &notices {
            problems.extend(self.tell(&stored.queue, notice).await?);
        }
        let mut next = stored.queue.clone();
        next.outbox.retain(|notice| !notices.contains(notice));
        for problem in problems {
            next.pause(problem, self.clock.now());
        }
        // If somebody else was faster, what is left is told again: twice rather than not at all. A queue whose invariants
        // are broken keeps its outbox until somebody mends it.
        if next.validate().is_ok() {
            self.save(stored, next).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Tells one thing; answers why the queue must pause, if it must.
    async fn tell(&self, queue: &MergeQueue, notice: &Notice) -> Result<Option<String>, EngineError> {
        let mut problem = None;
        if let Notice::Left { entry, departure } = notice {
            match departure {
                Departure::Landed => {
                    if let Some(certificate) = Certificate::of(queue, entry) {
                        let differences = self.audit(queue, entry, &certificate).await?;
                        problem = (!differences.is_empty()).then(|| {
                            format!("what landed is not what was tested: {}", differences.join("; "))
                        });
                    }
                }
                Departure::Removed(_) => {
                    let forge = self.forges.open(&queue.repository);
                    forge.clear_trigger(&entry.pull_request.id).await?;
                }
            }
        }
        let event = Event::of(notice);
        let key = event.key(queue);
        let written = Written { queue: queue.id.clone(), key: key.clone(), event };
        // Plain data: it can always be written.
        let body = serde_json::to_vec(&written).unwrap_or_default();
        let stream = event_stream(&self.options.namespace, &queue.id);
        self.store.append_entries(&stream, &[body.into()]).await?;
        self.told.send_modify(|count| *count += 1);
        self.options.notifications.send(&*self.store, &self.options.namespace, queue, notice, &key).await?;
        Ok(problem)
    }
}
