//! Finds the waiting items of other clients in one namespace, oldest first.
//!
//! Seed 000's index has one partition per status, for all namespaces. A first pass reads it from the oldest
//! item to the newest; later ones begin shortly before the last one did. So an item is found within a second,
//! however many wait in other namespaces, and each item is paid for a few times. What a client has dated back
//! is found by a page of the whole index with each poll, in rotation.

use std::time::Duration;

use weaver_core::error::Result;
use weaver_core::name::Namespace;
use weaver_core::projection::queue_item::Status;
use weaver_core::time::Monotonic;

use crate::codec::foreign::{is_adopted, written_at};
use crate::codec::value::{Attributes, iso};
use crate::db::{Index, Item, Query, Range};
use crate::store::DynamoStore;

/// Items read per query.
const PAGE: u32 = 100;
/// Maximum number of items that one poll reads: the next one continues there.
const READ_MAX: usize = 2000;
/// A poll that has found this many items reads no further page: they are adopted before anything is leased.
const FOUND_MAX: usize = 25;
/// Items read in rotation.
const ROTATION: u32 = 50;
/// How far back a pass begins before the last one: other clients' clocks differ, and the index lags.
const OVERLAP: Duration = Duration::from_secs(10);

/// Position of a process's polls in one namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingPoll {
    pub(crate) polled_at: Option<Monotonic>,
    /// A complete pass has read what was created before; `None`: there was none yet.
    read_to: Option<String>,
    /// A pass that is not complete.
    pass: Option<Pass>,
    rotation: Option<Item>,
}

#[derive(Debug, Clone)]
struct Pass {
    /// The next pass begins here.
    next_from: String,
    position: Option<Item>,
}

impl DynamoStore {
    /// The items found by the next step of a poll, in order of creation.
    pub(crate) async fn find_waiting(
        &self,
        namespace: &Namespace,
        poll: &mut WaitingPoll,
    ) -> Result<Vec<Item>> {
        let query = Query::index(Index::Status, Status::Queued.as_str());
        let range = poll.read_to.clone().map_or(Range::All, Range::After);
        let mut pass = poll
            .pass
            .take()
            .unwrap_or_else(|| Pass { next_from: iso(self.now().saturating_sub(OVERLAP)), position: None });
        let is_foreign =
            |item: &Item| item.text("namespace") == Some(namespace.as_str()) && !is_adopted(item);
        let (mut found, mut read) = (Vec::new(), 0);
        loop {
            let page = query.clone().range(range.clone()).limit(PAGE).after(pass.position.take());
            let page = self.db.query(page).await?;
            read += page.items.len();
            found.extend(page.items.into_iter().filter(is_foreign));
            pass.position = page.next;
            if pass.position.is_none() || read >= READ_MAX || found.len() >= FOUND_MAX {
                break;
            }
        }
        if pass.position.is_some() {
            poll.pass = Some(pass);
        } else if poll.read_to.replace(pass.next_from).is_some() {
            let page = query.limit(ROTATION).after(poll.rotation.take());
            let page = self.db.query(page).await?;
            poll.rotation = page.next;
            found.extend(page.items.into_iter().filter(is_foreign));
        }
        found.sort_by_cached_key(|item| {
            (written_at(item, "created_at"), item.text("task_id").unwrap_or_default().to_owned())
        });
        found.dedup_by(|one, other| one.get("task_id") == other.get("task_id"));
        Ok(found)
    }
}
