//! Telling what happened, after it was stored: the outbox is emptied only once everybody was told.

use super::{Certificate, EngineError, EntryDetail, Event, MergeEngine, Stored, Written, event_stream};
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
        // If somebody else was faster, what is left is told again: twice rather than not at all. A queue
        // whose invariants are broken keeps its outbox until somebody mends it.
        if next.validate().is_ok() {
            self.save(stored, next).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Tells one thing; answers why the queue must pause, if it must.
    async fn tell(&self, queue: &MergeQueue, notice: &Notice) -> Result<Option<String>, EngineError> {
        let mut problem = None;
        if let Notice::Left { entry, departure, link } = notice {
            let mut certificate = None;
            match (departure, link) {
                (Departure::Landed, Some(link)) => {
                    let differences;
                    (certificate, differences) = self.audit_landing(queue, link).await?;
                    problem = (!differences.is_empty())
                        .then(|| format!("what landed is not what was tested: {}", differences.join("; ")));
                }
                // Of a version that made no links.
                (Departure::Landed, None) => certificate = Certificate::of(queue, entry, None),
                (Departure::Removed(_), _) => {
                    let forge = self.forges.open(&queue.repository);
                    forge.clear_trigger(&entry.pull_request.id).await?;
                }
            }
            // Of several processes that saw it leave, this is the one whose word is the queue's.
            let (entry, departure) = ((**entry).clone(), Some(departure.clone()));
            let detail = EntryDetail { entry, departure, certificate };
            self.ledger.put_entry(&self.options.namespace, &queue.id, &detail).await?;
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
