//! Indexes that lag: each query of an index gets the state of the previous query, unless that is seconds old.
//! DynamoDB Local never lags, so passing there would prove little.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::clock::Clock;
use weaver_core::error::Result;
use weaver_core::time::Monotonic;
use weaver_dynamodb::db::{Db, Found, Index, Item, Query, Range, Table, Transacted, Usage, Write, Written};

/// How old a page may be.
const LAG: Duration = Duration::from_secs(5);

/// A partition as an earlier query found it.
struct Snapshot {
    at: Monotonic,
    items: Vec<Item>,
}

/// DynamoDB with indexes that lag.
pub(crate) struct Lagging<D> {
    inner: D,
    clock: Arc<dyn Clock>,
    opened_at: Monotonic,
    snapshots: Mutex<HashMap<(Index, String), Snapshot>>,
}

impl<D: Db> Lagging<D> {
    pub(crate) fn new(inner: D, clock: Arc<dyn Clock>) -> Self {
        let opened_at = clock.monotonic();
        Self { inner, clock, opened_at, snapshots: Mutex::default() }
    }

    async fn whole_partition(&self, query: &Query) -> Result<Vec<Item>> {
        let (mut items, mut start) = (Vec::new(), None);
        loop {
            let whole = Query { range: Range::All, forward: true, limit: None, start, ..query.clone() };
            let found = self.inner.query(whole).await?;
            items.extend(found.items);
            match found.next {
                Some(next) => start = Some(next),
                None => return Ok(items),
            }
        }
    }

    async fn stale(&self, index: Index, query: Query) -> Result<Found> {
        // Before it is fetched: a test may move the clock while the answer is on its way, and a page is as
        // old as its request.
        let now = self.clock.monotonic();
        let fresh = self.whole_partition(&query).await?;
        let shown = {
            let mut snapshots = self.snapshots.lock();
            let key = (index, query.partition.clone());
            match snapshots.insert(key, Snapshot { at: now, items: fresh.clone() }) {
                Some(earlier) if earlier.at.saturating_add(LAG) > now => earlier.items,
                // The first query of a new database: it was empty before.
                None if self.opened_at.saturating_add(LAG) > now => Vec::new(),
                // The index has long caught up.
                _ => fresh,
            }
        };
        Ok(page(index, &query, shown))
    }
}

/// The page of a query from a whole partition.
fn page(index: Index, query: &Query, mut items: Vec<Item>) -> Found {
    let place = |item: &Item| {
        let text =
            |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
        (text(index.key().1), text("namespace"), text("task_id"))
    };
    items.retain(|item| query.range.contains(&place(item).0));
    items.sort_by_key(place);
    if !query.forward {
        items.reverse();
    }
    if let Some(start) = &query.start {
        let start = place(start);
        items.retain(|item| if query.forward { place(item) > start } else { place(item) < start });
    }
    let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
    let more = items.len() > limit;
    items.truncate(limit);
    let names = [index.key().0, index.key().1, "namespace", "task_id"];
    let key = |item: &Item| {
        names.iter().filter_map(|name| Some(((*name).to_owned(), item.get(*name)?.clone()))).collect()
    };
    let next = if more { items.last().map(key) } else { None };
    Found { items, next }
}

#[async_trait]
impl<D: Db> Db for Lagging<D> {
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>> {
        self.inner.get(table, keys).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.inner.write(write).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted> {
        self.inner.transact(writes).await
    }

    async fn query(&self, query: Query) -> Result<Found> {
        match query.index {
            Some(index) => self.stale(index, query).await,
            None => self.inner.query(query).await,
        }
    }

    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()> {
        self.inner.remove(table, keys).await
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}
