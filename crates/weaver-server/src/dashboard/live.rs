//! What happens, for pages: that something changed, and which tasks.
//!
//! A page asks for itself again when it hears of a change, so it needs to hear no more than a few times a
//! second, however much happens. Changes are gathered here, at most [`GATHER`] long, and told by id as far as
//! the list is short.

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

/// How long changes are gathered before a page is told.
const GATHER: Duration = Duration::from_millis(200);
/// How long the browser waits before it connects again.
const RETRY: Duration = Duration::from_millis(500);
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
    // The API answers 400 to an id that is none. Here it means resync: the browser keeps the id by itself and
    // a page cannot change it, and a refusal is final for an EventSource, so that the page would have to be
    // opened anew.
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
