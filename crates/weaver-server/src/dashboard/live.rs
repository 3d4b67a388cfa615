//! Server-sent events for pages: that something changed, and in which tasks.
//!
//! A page fetches itself again after an event, so a few events per second are enough at any load. Changes are
//! coalesced for [`GATHER`], and listed by task id up to [`IDS_MAX`].

use std::collections::{BTreeSet, VecDeque};
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
use crate::api::change_stream::resync;
use crate::api::last_event_id::{Resume, change_place};
use crate::api::sse::{self, EventSource};
use crate::api::watch::Watch;
use crate::problem::Problem;
use crate::security::SealingKey;

/// How long changes are coalesced into one event.
const GATHER: Duration = Duration::from_millis(200);
/// The browser's reconnection delay.
const RETRY: Duration = Duration::from_millis(500);
const BATCH: u32 = 1000;
/// Reads per event, so that a constant stream of changes cannot delay it forever.
const READS_MAX: usize = 32;
/// Task ids per event; beyond, the event has none and every page refreshes.
const IDS_MAX: usize = 100;

/// The data of an event `changes`.
#[derive(Serialize)]
struct ChangesData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a BTreeSet<String>>,
}

pub(super) async fn stream(
    view: View,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let key = view.state.key.get().await?.clone();
    // The API answers 400 to an invalid id. Here it means resync: a page cannot change the id in its browser,
    // and an error status is final for an EventSource, so the user would have to reload the page.
    let resume = change_place(&headers, &key).unwrap_or(Resume::Resync);
    let after = match resume {
        Resume::After(place) => place,
        Resume::Now | Resume::Resync => {
            let (Changes::Next { next, .. } | Changes::Resync { next }) =
                view.state.store.changes(None, 1).await?;
            next
        }
    };
    let watch = Watch::new(view.state, view.caller, Permission::Read, view.namespace);
    let mut pending =
        VecDeque::from([Event::default().retry(RETRY).comment("listening").id(key.seal_place(after))]);
    if resume == Resume::Resync {
        pending.push_back(resync(&key, after));
    }
    Ok(sse::stream("page", Reader { watch, key, after, pending }))
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

    async fn next(&mut self) -> Result<Event, Problem> {
        if let Some(event) = self.pending.pop_front() {
            return Ok(event);
        }
        loop {
            self.watch.check_stream().await?;
            match self.gather().await? {
                Gathered::Resync => return Ok(resync(&self.key, self.after)),
                Gathered::Ids(ids) if !ids.is_empty() => return Ok(self.event(&ids)),
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
    fn event(&self, ids: &BTreeSet<String>) -> Event {
        let data = ChangesData { ids: (ids.len() <= IDS_MAX).then_some(ids) };
        let data = serde_json::to_string(&data).unwrap_or_default(); // A set of strings always serializes.
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
                            ids.insert(change.key.shown_id().to_string());
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
