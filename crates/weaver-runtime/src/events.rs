//! The stream of transitions (G10).
//!
//! Pulled, never pushed: a slow subscriber falls behind in the store's change log, and gets a `Resync` when
//! its cursor has been overwritten. It costs the store nothing and delays no other subscriber.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use weaver_core::error::Result;
use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::ports::Store;
use weaver_core::queue::Interest;

/// Changes per call, and the most that are buffered for a subscriber.
const CHANGES_MAX: u32 = 256;
/// The change log is read this often, even without a wake-up.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// An event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A transition of a task. Delivered at least once: `version` tells a repetition.
    Change(Change),
    /// Transitions may be missing from the stream: read the tasks you care about again.
    Resync,
}

/// An event with its resume cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventAt {
    /// A transition, or a gap in the stream.
    pub event: Event,
    /// Subscribe from here to resume after this event. Nothing is skipped; a few earlier events may be
    /// repeated, as a store only has cursors at the ends of batches.
    pub cursor: ChangeCursor,
}

/// Follows every transition in a store, from the stream's first poll on. The first item is
/// [`Event::Resync`]: read your tasks after it, and no later transition is missed.
///
/// The stream never ends. After an error it resumes where it was: wait a little and poll again.
pub fn subscribe(store: Arc<dyn Store>) -> impl Stream<Item = Result<Event>> + Send + Unpin + 'static {
    subscribe_from(store, None).map_ok(|item| item.event)
}

/// Resumes after the cursor of an earlier subscription; `None` starts as [`subscribe`] does.
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
    /// The next read; `None` before the first.
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
                    Some(before) if !items.is_empty() => self.buffer(items, before, next),
                    Some(_) => {
                        self.place = Some(next);
                        // Wake-up or timeout: the change log is read again either way.
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

    /// Only the last change of a batch has the batch's end as its cursor: resuming after another reads the
    /// batch again.
    fn buffer(&mut self, items: Vec<Change>, before: ChangeCursor, next: ChangeCursor) {
        self.place = Some(next);
        let last = items.len() - 1;
        let items = items.into_iter().enumerate();
        self.fetched.extend(items.map(|(index, change)| EventAt {
            event: Event::Change(change),
            cursor: if index == last { next } else { before },
        }));
    }
}
