//! Retention of processed events and of notices.

use std::collections::HashSet;

use weaver_core::limits::PAGE_MAX;
use weaver_core::ports::{DocumentKey, DocumentWrite, Expect, StreamKey, TrimBefore};
use weaver_core::time::Timestamp;

use crate::definition::NOTICES_STREAM;
use crate::error::Result;
use crate::event::{EVENT_KIND, EXPIRY_KIND};
use crate::service::Scheduler;

impl Scheduler {
    /// Removes processed events and notices past their retention, in batches; returns how many events were
    /// removed and whether there may be more.
    pub async fn sweep(&self) -> Result<(usize, bool)> {
        let settings = self.settings.current();
        let now = self.clock.now();
        let noticed: Vec<_> = self.noticed.lock().iter().cloned().collect();
        for namespace in noticed {
            let stream = StreamKey::new(namespace, NOTICES_STREAM);
            let before = TrimBefore::Time(now.saturating_sub(settings.notices_retention));
            self.store.trim_entries(&stream, before).await?;
        }
        // Half a page: each event takes two writes.
        let limit = PAGE_MAX / 2;
        let expired = self.store.due_documents(EXPIRY_KIND, now, limit).await?;
        if expired.is_empty() {
            return Ok((0, false));
        }
        let open = self.store.due_documents(EVENT_KIND, Timestamp::MAX, PAGE_MAX).await?;
        let knows_all = open.len() < PAGE_MAX as usize;
        let open: HashSet<DocumentKey> = open.into_iter().map(|document| document.key).collect();
        let (mut writes, mut count, more) = (Vec::new(), 0, expired.len() == limit as usize);
        for entry in expired {
            let stored_at: Option<Timestamp> =
                std::str::from_utf8(&entry.body).ok().and_then(|text| text.parse().ok());
            let until = stored_at.unwrap_or(entry.updated_at).saturating_add(settings.events_retention);
            let event = DocumentKey::new(entry.key.namespace.clone(), EVENT_KIND, entry.key.id.as_str());
            if until > now || !knows_all || open.contains(&event) {
                // The retention was raised, or it is not processed yet: unprocessed events are never removed.
                let later = until.max(now.saturating_add(std::time::Duration::from_secs(3600)));
                let expect = Expect::Version(entry.version);
                writes.push(DocumentWrite::put(entry.key, entry.body, expect, Some(later)));
                continue;
            }
            count += 1;
            // The event first, for stores that write one by one: a remaining entry is found again.
            writes.push(DocumentWrite::delete(event, Expect::Anything));
            writes.push(DocumentWrite::delete(entry.key, Expect::Version(entry.version)));
        }
        // A conflict means that another node has done the same.
        let _ = self.write_all(writes).await?;
        Ok((count, more))
    }
}
