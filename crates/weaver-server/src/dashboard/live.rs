//! What happens, for pages: that something changed, and which tasks.
//!
//! A page asks for itself again when it hears of a change, so it needs to hear no more than a few times a second, however
//! much happens. Changes are gathered here, at most [`GATHER`] long, and told by id as far as the list is short.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};

use super::view::View;
use crate::api::AppState;
use crate::problem::Problem;

/// How long changes are gathered before a page is told.
const GATHER: Duration = Duration::from_millis(200);
/// How many changes are read at once.
const BATCH: u32 = 1000;
/// The most reads before a page is told, so that a flood cannot keep it waiting.
const READS_MAX: usize = 32;
/// The most tasks that are named; beyond, every page takes it as concerning itself.
const IDS_MAX: usize = 100;

/// The data of an event `changes`.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a BTreeSet<String>>,
}

pub(super) async fn stream(
    view: View,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = match place {
        Some(after) => after,
        None => {
            let (Changes::Next { next, .. } | Changes::Resync { next }) =
                view.state.store.changes(None, 1).await?;
            next
        }
    };
    let reader = Reader { state: view.state, namespace: view.namespace, after, greeted: false };
    Ok(Sse::new(unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    })))
}

struct Reader {
    state: AppState,
    namespace: Namespace,
    after: ChangeCursor,
    greeted: bool,
}

impl Reader {
    /// The next thing to tell; `None` when the server stops or the store cannot be read: the browser comes back.
    async fn next(&mut self) -> Option<Event> {
        if !self.greeted {
            self.greeted = true;
            return Some(
                Event::default()
                    .id(self.after.to_string())
                    .retry(Duration::from_millis(500))
                    .comment("listening"),
            );
        }
        loop {
            match self.gather().await? {
                Gathered::Resync => {
                    return Some(Event::default().event("resync").id(self.after.to_string()).data("{}"));
                }
                Gathered::Ids(ids) if !ids.is_empty() => return Some(self.told(&ids)),
                Gathered::Ids(_) => {}
            }
            let interest = Interest::Changes { after: self.after };
            let woken = tokio::select! {
                woken = self.state.store.wait(interest, self.state.limits.heartbeat) => woken.ok()?,
                () = self.state.closing.cancelled() => return None,
            };
            if woken == Wake::TimedOut {
                return Some(Event::default().comment("alive"));
            }
            let until = self.state.clock.monotonic().saturating_add(GATHER);
            tokio::select! {
                () = self.state.clock.sleep_until(until) => {}
                () = self.state.closing.cancelled() => return None,
            }
        }
    }

    fn told(&self, ids: &BTreeSet<String>) -> Event {
        let told = Told { ids: (ids.len() <= IDS_MAX).then_some(ids) };
        // Texts can always be written.
        let data = serde_json::to_string(&told).unwrap_or_default();
        Event::default().event("changes").id(self.after.to_string()).data(data)
    }

    async fn gather(&mut self) -> Option<Gathered> {
        let mut ids = BTreeSet::new();
        for _ in 0..READS_MAX {
            match self.state.store.changes(Some(self.after), BATCH).await {
                Ok(Changes::Next { items, next }) => {
                    self.after = next;
                    let ours = items.iter().filter(|change| change.key.namespace == self.namespace);
                    for change in ours {
                        if ids.len() <= IDS_MAX {
                            ids.insert(change.key.id.to_string());
                        }
                    }
                    if items.len() < BATCH as usize {
                        break;
                    }
                }
                Ok(Changes::Resync { next }) => {
                    self.after = next;
                    return Some(Gathered::Resync);
                }
                Err(error) => {
                    tracing::warn!(%error, "a page's stream of events ends");
                    return None;
                }
            }
        }
        Some(Gathered::Ids(ids))
    }
}

enum Gathered {
    Ids(BTreeSet<String>),
    Resync,
}
