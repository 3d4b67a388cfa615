//! The stream of transitions (G10), for whoever wants to follow.
//!
//! Pulled, never pushed: a subscriber that is slow reads from further and further behind in the store's own
//! ring, and is told to resync when that has moved on. It costs the store nothing, and nobody waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use weaver_core::error::Result;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::ports::Store;
use weaver_core::queue::Interest;

/// How many changes are fetched with one call, and held for a subscriber at most.
const CHANGES_MAX: u32 = 256;
/// The stream is looked at this often, even if the store says nothing.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// What a subscriber hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A task moved. It may be said more than once: the version tells a repetition from news.
    Change(Change),
    /// There may have been moves that are not in the stream: read the tasks you care about again.
    Resync,
}

/// An event, and where to go on after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventAt {
    /// What happened.
    pub event: Event,
    /// Subscribe from here to go on after this event. Nothing is left out; a few events before it may come
    /// again, as stores only know the places where a batch of changes ends.
    pub cursor: ChangeCursor,
}

/// Follows every transition in a store, from when the stream is first polled. As nothing is known of what
/// came before, the first item is [`Event::Resync`]: whatever moves after it is heard.
///
/// The stream never ends. After an error it goes on where it was, so that a subscriber may wait a little and
/// poll again.
pub fn subscribe(store: Arc<dyn Store>) -> impl Stream<Item = Result<Event>> + Send + Unpin + 'static {
    subscribe_from(store, None).map_ok(|item| item.event)
}

/// Follows transitions from a place where an earlier subscription was; `None` starts as [`subscribe`] does.
pub fn subscribe_from(
    store: Arc<dyn Store>,
    after: Option<ChangeCursor>,
) -> impl Stream<Item = Result<EventAt>> + Send + Unpin + 'static {
    let subscription = Subscription { store, place: after, fetched: VecDeque::new() };
    // Boxed: callers need not pin it to poll it.
    stream::unfold(subscription, |mut subscription| async move {
        let item = subscription.next().await;
        Some((item, subscription))
    })
    .boxed()
}

struct Subscription {
    store: Arc<dyn Store>,
    /// Where to read on; `None` until it has begun.
    place: Option<ChangeCursor>,
    fetched: VecDeque<EventAt>,
}

impl Subscription {
    async fn next(&mut self) -> Result<EventAt> {
        loop {
            if let Some(item) = self.fetched.pop_front() {
                return Ok(item);
            }
            let before = self.place;
            match self.store.changes(before, CHANGES_MAX).await? {
                Changes::Resync { next } => self.announce_gap(next),
                Changes::Next { items, next } => match before {
                    None => self.announce_gap(next),
                    Some(before) if !items.is_empty() => self.keep(items, before, next),
                    Some(_) => {
                        self.place = Some(next);
                        // Why it ended does not matter: the stream is read again either way.
                        let _ = self.store.wait(Interest::Changes { after: next }, POLL_EVERY).await?;
                    }
                },
            }
        }
    }

    fn announce_gap(&mut self, next: ChangeCursor) {
        self.place = Some(next);
        self.fetched.push_back(EventAt { event: Event::Resync, cursor: next });
    }

    /// Only the last of a batch stands where the batch ends: going on after another means reading the batch
    /// again.
    fn keep(&mut self, items: Vec<Change>, before: ChangeCursor, next: ChangeCursor) {
        self.place = Some(next);
        let last = items.len() - 1;
        let items = items.into_iter().enumerate();
        self.fetched.extend(items.map(|(index, change)| EventAt {
            event: Event::Change(change),
            cursor: if index == last { next } else { before },
        }));
    }
}
