//! Live events (G10) as Server-Sent Events.
//!
//! Nothing is buffered per client: each stream reads the store's change log at its own pace. A client that
//! falls behind the log gets a `resync` event; one that does not read is disconnected by the write timeout.
//!
//! A stream is of one namespace. Changes of others leave no trace in it: no event, no id, and ids are
//! sealed, so that the number of changes between two of them cannot be read.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use weaver_api::{Change, EVENT_CHANGE, EVENT_RESYNC, EventsQuery, namespace_or_default};
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::queue::{Interest, Wake};

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::last_event_id::{Resume, change_place};
use super::sse::{self, EventSource};
use super::watch::Watch;
use super::{ApiResult, AppState};
use crate::problem::stopping;
use crate::security::SealingKey;

/// The most changes of one read.
const BATCH: u32 = 256;

/// Stream task changes.
///
/// Events are named `change` (with the change as data), `resync` (changes were skipped: read again) and `end`
/// (why the stream ends, as `reason`, `detail` and `hint`). Every event's id is a place in the stream: send
/// it back as `Last-Event-ID` to continue from there.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(EventsQuery, ("last-event-id" = Option<String>, Header, description = "Continue after this event")),
    responses((status = 200, description = "A stream of events", body = String, content_type = "text/event-stream")))]
pub(crate) async fn stream_events(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> ApiResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let key = state.key.get().await?.clone();
    let resume = change_place(&headers, &key)?;
    let (Changes::Next { next: now, .. } | Changes::Resync { next: now }) =
        state.store.changes(None, 1).await?;
    let after = if let Resume::After(place) = resume { place } else { now };
    // Sent at once, so that a client that loses the connection before the first event can resume from here.
    let listening = Event::default().id(key.seal_place(after)).comment("listening");
    let mut pending = VecDeque::from([listening]);
    if resume == Resume::Resync {
        pending.push_back(resync(&key, after));
    }
    let watch = Watch::new(state, caller, Permission::Read, namespace);
    Ok(sse::stream("changes", Reader { watch, key, after, pending }))
}

/// Tells the client that changes were skipped: it reads again what it shows.
pub(crate) fn resync(key: &SealingKey, next: ChangeCursor) -> Event {
    Event::default().event(EVENT_RESYNC).id(key.seal_place(next)).data("{}")
}

struct Reader {
    watch: Watch,
    key: SealingKey,
    after: ChangeCursor,
    pending: VecDeque<Event>,
}

impl EventSource for Reader {
    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn next(&mut self) -> ApiResult<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            self.watch.check_stream().await?;
            match self.watch.state.store.changes(Some(self.after), BATCH).await? {
                Changes::Next { items, next } if !items.is_empty() => self.queue_up(&items, next),
                Changes::Next { next, .. } => {
                    self.after = next;
                    self.wait().await?;
                }
                Changes::Resync { next } => {
                    self.after = next;
                    return Ok(resync(&self.key, next));
                }
            }
        }
    }
}

impl Reader {
    fn queue_up(&mut self, items: &[weaver_core::event::Change], next: ChangeCursor) {
        // Where positions are contiguous, every event has its own id. Otherwise only the last of a batch has
        // one, and a client that resumes in the middle gets the beginning again.
        let before = next.position.checked_sub(items.len() as u64);
        let counted = next.incarnation == self.after.incarnation && before == Some(self.after.position);
        let ours = |change: &weaver_core::event::Change| change.key.namespace == self.watch.namespace;
        let last = items.iter().rposition(ours);
        for (index, change) in items.iter().enumerate().filter(|(_, change)| ours(change)) {
            // A change is plain data: it can always be written.
            let data = serde_json::to_string(&Change::from(change)).unwrap_or_default();
            let event = Event::default().event(EVENT_CHANGE).data(data);
            let place = ChangeCursor { position: self.after.position + index as u64 + 1, ..next };
            self.pending.push_back(match (last == Some(index), counted) {
                // The rest of the batch belongs to other namespaces.
                (true, _) => event.id(self.key.seal_place(next)),
                (false, true) => event.id(self.key.seal_place(place)),
                (false, false) => event,
            });
        }
        self.after = next;
    }

    async fn wait(&mut self) -> ApiResult<()> {
        let (interest, heartbeat) =
            (Interest::Changes { after: self.after }, self.watch.state.limits.heartbeat);
        let woken = self.watch.wait(interest, heartbeat).await?;
        if self.watch.state.closing.is_cancelled() {
            return Err(stopping());
        }
        if woken == Wake::TimedOut {
            // With an id: a client of a quiet namespace that resumes does not fall behind the log.
            self.pending.push_back(Event::default().id(self.key.seal_place(self.after)).comment("alive"));
        }
        Ok(())
    }
}
