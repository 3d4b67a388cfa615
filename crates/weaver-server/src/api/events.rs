//! Live events (G10) as Server-Sent Events.
//!
//! Nothing is buffered per client: each stream reads the store's ring at its own pace. One that falls behind the ring is
//! told to resync; one that does not read at all is disconnected by the connection's write timeout.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use weaver_client::wire::{Change, EVENT_CHANGE, EVENT_RESYNC, EventsQuery, namespace_or_default};
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};

use super::caller::{Caller, Permission};
use super::extract::Params;
use super::{Answer, AppState};
use crate::problem::Problem;

/// How many changes are read at once.
const BATCH: u32 = 256;

/// What happens, as it happens.
///
/// Events are named `change` (with the change as data) and `resync` (read again what you care about). Every event's id
/// is a place in the stream: send it back as `Last-Event-ID` to go on from there.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(EventsQuery, ("last-event-id" = Option<String>, Header, description = "Go on after this event")),
    responses((status = 200, description = "A stream of events", body = String, content_type = "text/event-stream")))]
pub(crate) async fn stream_events(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let after = last_event_id(&headers)?;
    let mut reader = Reader {
        state,
        namespace,
        after: ChangeCursor { incarnation: 0, position: 0 },
        pending: VecDeque::new(),
    };
    match after {
        Some(after) => reader.after = after,
        None => {
            let (Changes::Next { next, .. } | Changes::Resync { next }) =
                reader.state.store.changes(None, 1).await?;
            reader.after = next;
        }
    }
    // Said at once, so that whoever loses the connection before the first event can still go on from here.
    reader.pending.push_back(Event::default().id(reader.after.to_string()).comment("listening"));
    Ok(Sse::new(unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    })))
}

/// The place a client goes on from, if it says one.
pub(super) fn last_event_id<T: FromStr>(headers: &HeaderMap) -> Result<Option<T>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let place = value.to_str().ok().and_then(|text| text.parse().ok());
    let bad = || {
        Problem::bad_request(
            "invalid_last_event_id",
            "Last-Event-ID is not the id of an event",
            "send back an id that an event carried, or none",
        )
        .field("last-event-id")
    };
    place.ok_or_else(bad).map(Some)
}

struct Reader {
    state: AppState,
    namespace: Namespace,
    after: ChangeCursor,
    pending: VecDeque<Event>,
}

impl Reader {
    /// The next event; `None` when the server stops or the store cannot be read: the client comes back by itself.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(event);
            }
            let changes = self.state.store.changes(Some(self.after), BATCH).await;
            match changes {
                Ok(Changes::Next { items, next }) if !items.is_empty() => self.queue_up(&items, next),
                Ok(Changes::Next { next, .. }) => {
                    self.after = next;
                    self.wait().await?;
                }
                Ok(Changes::Resync { next }) => {
                    self.after = next;
                    return Some(Event::default().event(EVENT_RESYNC).id(next.to_string()).data("{}"));
                }
                Err(error) => {
                    tracing::warn!(%error, "a stream of events ends");
                    return None;
                }
            }
        }
    }

    fn queue_up(&mut self, items: &[weaver_core::event::Change], next: ChangeCursor) {
        // Where places are counted one by one, every event has its own; else only the last of a batch has one, and
        // whoever stops in the middle of it hears the beginning again.
        let before = next.position.checked_sub(items.len() as u64);
        let counted = next.incarnation == self.after.incarnation && before == Some(self.after.position);
        for (index, change) in items.iter().enumerate() {
            let last = index + 1 == items.len();
            let place = ChangeCursor { position: self.after.position + index as u64 + 1, ..next };
            let mut event = Event::default();
            if change.key.namespace == self.namespace {
                // A change is plain data: it can always be written.
                let data = serde_json::to_string(&Change::from(change)).unwrap_or_default();
                event = event.event(EVENT_CHANGE).data(data);
            } else if !last {
                continue;
            }
            self.pending.push_back(match (last, counted) {
                (true, _) => event.id(next.to_string()),
                (false, true) => event.id(place.to_string()),
                (false, false) => event,
            });
        }
        self.after = next;
    }

    async fn wait(&mut self) -> Option<()> {
        let interest = Interest::Changes { after: self.after };
        let woken = tokio::select! {
            woken = self.state.store.wait(interest, self.state.limits.heartbeat) => woken.ok()?,
            () = self.state.closing.cancelled() => return None,
        };
        if woken == Wake::TimedOut {
            self.pending.push_back(Event::default().comment("alive"));
        }
        Some(())
    }
}
