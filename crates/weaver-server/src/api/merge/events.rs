//! A merge queue's journal as Server-Sent Events.
//!
//! The journal is read at each client's own pace: at once when this node wrote to it, and by polling for
//! events of other nodes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use tokio::sync::watch;
use weaver_core::ports::{Entry, ReadFrom, Seq, StreamKey};
use weaver_core::time::Monotonic;
use weaver_merge::domain::QueueId;
use weaver_merge::engine::{EngineError, Event as QueueEvent, JournalEvent, event_stream};

use super::access::{Permitted, permitted};
use super::convert;
use crate::api::caller::{Caller, Permission};
use crate::api::extract::Name;
use crate::api::last_event_id::journal_place;
use crate::api::sse::{self, EventSource};
use crate::api::watch::Watch;
use crate::api::{ApiResult, AppState};

/// The most events of one read.
const BATCH: u32 = 100;
/// How often the journal is polled for events of other nodes.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Stream the events of a merge queue.
///
/// Events are named `queue_entry_added`, `queue_entry_removed`, `pull_request_merged`, `base_moved_outside`,
/// `queue_paused`, `queue_trouble` and `queue_removed`, and have a `MergeEvent` as data; `end` says why the
/// stream ends. One may come twice: its `key` tells. Every event's id is its place: send it back as
/// `Last-Event-ID` to go on from there, or 0 to begin with the first that is kept.
#[utoipa::path(get, path = "/api/v1/merge/queues/{queue}/events", tag = "merge",
    params(("queue" = String, Path, description = "The queue's id", min_length = 1, max_length = 100),
        ("last-event-id" = Option<String>, Header, description = "Continue after this event")),
    responses((status = 200, description = "A stream of events", body = String, content_type = "text/event-stream")))]
pub(crate) async fn stream_merge_events(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    Name(queue): Name,
) -> ApiResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let Permitted { id: queue, queue: stored, namespace } =
        permitted(&state, &caller, Permission::Read, queue).await?;
    stored.refuse_removed().map_err(EngineError::from)?;
    let stream = event_stream(state.merge.namespace(), &queue);
    // Subscribed before the journal is read, so that no event is missed.
    let published = state.merge.published();
    let after = match journal_place(&headers)? {
        Some(place) => place,
        None => {
            let page = state.store.read_entries(&stream, ReadFrom::Last(1), 1).await?;
            page.entries.last().map_or(Seq(0), |entry| entry.seq)
        }
    };
    let last_sent_at = state.clock.monotonic();
    let listening = Event::default().id(after.0.to_string()).comment("listening");
    let watch = Watch::new(state, caller, Permission::Read, namespace);
    let pending = VecDeque::from([listening]);
    let reader = Reader { watch, queue, stream, published, after, last_sent_at, pending, has_removal: false };
    Ok(sse::stream("merge queue", reader))
}

struct Reader {
    watch: Watch,
    queue: QueueId,
    stream: StreamKey,
    published: watch::Receiver<u64>,
    after: Seq,
    last_sent_at: Monotonic,
    pending: VecDeque<Event>,
    /// The last event that was read is the removal of the queue.
    has_removal: bool,
}

impl EventSource for Reader {
    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn next(&mut self) -> ApiResult<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                self.last_sent_at = self.watch.state.clock.monotonic();
                return Ok(event);
            }
            self.watch.check_stream().await?;
            if std::mem::take(&mut self.has_removal) {
                self.check_queue().await?;
            }
            self.published.mark_unchanged();
            let from = ReadFrom::After(self.after);
            let page = self.watch.state.store.read_entries(&self.stream, from, BATCH).await?;
            for entry in &page.entries {
                self.after = entry.seq;
                // Events of a newer version may be unreadable; they are skipped.
                let Ok(written) = serde_json::from_slice::<JournalEvent>(&entry.body) else { continue };
                self.has_removal = matches!(written.event, QueueEvent::QueueRemoved { .. });
                self.pending.extend(shown(written, entry));
                if self.has_removal {
                    // What follows is of a queue that was added later.
                    break;
                }
            }
            if page.entries.is_empty() {
                self.wait().await;
            }
        }
    }
}

impl Reader {
    /// Ends the stream of a queue that was removed. One of the same name that was added since continues the
    /// journal, and may be in another namespace.
    async fn check_queue(&self) -> ApiResult<()> {
        let merge = &self.watch.state.merge;
        let queue = merge.get(&self.queue).await?.queue;
        queue.refuse_removed().map_err(EngineError::from)?;
        if *merge.namespace_of(&queue) != self.watch.namespace {
            return Err(EngineError::NoQueue(queue.id).into());
        }
        Ok(())
    }

    async fn wait(&mut self) {
        let state = &self.watch.state;
        let poll_at = state.clock.monotonic().saturating_add(POLL_EVERY);
        tokio::select! {
            _ = self.published.changed() => {}
            () = state.clock.sleep_until(poll_at) => {}
            () = state.closing.cancelled() => return,
        }
        let silent = state.clock.monotonic().0.saturating_sub(self.last_sent_at.0);
        if silent >= state.limits.heartbeat {
            self.pending.push_back(Event::default().comment("alive"));
        }
    }
}

fn shown(written: JournalEvent, entry: &Entry) -> Option<Event> {
    let event = convert::event(written, entry.at);
    let data = serde_json::to_string(&event).ok()?;
    Some(Event::default().id(entry.seq.0.to_string()).event(event.event).data(data))
}
