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
use serde::Serialize;
use weaver_core::event::{ChangeCursor, Changes};
use weaver_core::queue::{Interest, Wake};

use super::view::View;
use crate::api::Permission;
use crate::api::sse::{self, EventSource};
use crate::api::watch::Watch;
use crate::problem::Problem;
use crate::security::SealingKey;

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
    let key = view.state.key.get().await?.clone();
    let id = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = match id.and_then(|id| key.open_place(id)) {
        Some(after) => after,
        None => {
            let (Changes::Next { next, .. } | Changes::Resync { next }) =
                view.state.store.changes(None, 1).await?;
            next
        }
    };
    let watch = Watch::new(view.state, view.caller, Permission::Read, view.namespace);
    Ok(sse::stream("page", Reader { watch, key, after, greeted: false }))
}

struct Reader {
    watch: Watch,
    key: SealingKey,
    after: ChangeCursor,
    greeted: bool,
}

impl EventSource for Reader {
    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn next(&mut self) -> Result<Event, Problem> {
        if !self.greeted {
            self.greeted = true;
            let listening = Event::default().retry(Duration::from_millis(500)).comment("listening");
            return Ok(listening.id(self.key.seal_place(self.after)));
        }
        loop {
            self.watch.check_stream().await?;
            match self.gather().await? {
                Gathered::Resync => {
                    let id = self.key.seal_place(self.after);
                    return Ok(Event::default().event("resync").id(id).data("{}"));
                }
                Gathered::Ids(ids) if !ids.is_empty() => return Ok(self.told(&ids)),
                Gathered::Ids(_) => {}
            }
            let (interest, heartbeat) =
                (Interest::Changes { after: self.after }, self.watch.state.limits.heartbeat);
            if self.watch.wait(interest, heartbeat).await? == Wake::TimedOut {
                self.watch.check_stream().await?;
                return Ok(Event::default().id(self.key.seal_place(self.after)).comment("alive"));
            }
            let until = self.watch.state.clock.monotonic().saturating_add(GATHER);
            self.watch.wait_until(until).await?;
        }
    }
}

impl Reader {
    fn told(&self, ids: &BTreeSet<String>) -> Event {
        let told = Told { ids: (ids.len() <= IDS_MAX).then_some(ids) };
        // Texts can always be written.
        let data = serde_json::to_string(&told).unwrap_or_default();
        Event::default().event("changes").id(self.key.seal_place(self.after)).data(data)
    }

    async fn gather(&mut self) -> Result<Gathered, Problem> {
        let mut ids = BTreeSet::new();
        for _ in 0..READS_MAX {
            match self.watch.state.store.changes(Some(self.after), BATCH).await? {
                Changes::Next { items, next } => {
                    self.after = next;
                    let ours = items.iter().filter(|change| change.key.namespace == self.watch.namespace);
                    for change in ours {
                        if ids.len() <= IDS_MAX {
                            ids.insert(change.key.id.to_string());
                        }
                    }
                    if items.len() < BATCH as usize {
                        break;
                    }
                }
                Changes::Resync { next } => {
                    self.after = next;
                    return Ok(Gathered::Resync);
                }
            }
        }
        Ok(Gathered::Ids(ids))
    }
}

enum Gathered {
    Ids(BTreeSet<String>),
    Resync,
}
