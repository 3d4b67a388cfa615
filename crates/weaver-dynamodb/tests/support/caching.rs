//! A read cache for a world that has its database to itself: data without a write since the last read is not
//! read again. Most reads of idle workers are of this kind, and DynamoDB Local is slow.

use std::collections::HashMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use weaver_core::error::Result;
use weaver_dynamodb::db::{Db, Found, Item, Query, Table, Transacted, Usage, Write, WriteAction, Written};

/// DynamoDB with a read cache.
pub(crate) struct Caching<D> {
    inner: D,
    /// How often each partition was written to; an empty name stands for the whole table.
    written: Mutex<HashMap<(Table, String), u64>>,
    found: Mutex<HashMap<String, (u64, Found)>>,
    gotten: Mutex<HashMap<String, (u64, Vec<Item>)>>,
}

impl<D: Db> Caching<D> {
    pub(crate) fn new(inner: D) -> Self {
        Self { inner, written: Mutex::default(), found: Mutex::default(), gotten: Mutex::default() }
    }

    /// Counts before a write and after it, so that concurrent reads are not cached.
    fn touch(&self, places: &[(Table, String)]) {
        let mut written = self.written.lock();
        for (table, partition) in places {
            *written.entry((*table, partition.clone())).or_default() += 1;
            *written.entry((*table, String::new())).or_default() += 1;
        }
    }

    fn stamp(&self, table: Table, partition: &str) -> u64 {
        self.written.lock().get(&(table, partition.to_owned())).copied().unwrap_or_default()
    }
}

fn text(item: &Item, name: &str) -> String {
    item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default()
}

fn place(write: &Write) -> (Table, String) {
    let item = match &write.action {
        WriteAction::Put(item)
        | WriteAction::Update { key: item, .. }
        | WriteAction::Delete(item)
        | WriteAction::Check(item) => item,
    };
    (write.table, text(item, write.table.key().0))
}

#[async_trait]
impl<D: Db> Db for Caching<D> {
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>> {
        let (partition, sort) = table.key();
        let places: Vec<_> = keys.iter().map(|key| (text(key, partition), text(key, sort))).collect();
        let stamp = || places.iter().map(|(partition, _)| self.stamp(table, partition)).sum();
        let question = format!("{table:?} {places:?}");
        let before: u64 = stamp();
        if let Some((_, items)) = self.gotten.lock().get(&question).filter(|(at, _)| *at == before) {
            return Ok(items.clone());
        }
        let items = self.inner.get(table, keys).await?;
        self.gotten.lock().insert(question, (before, items.clone()));
        Ok(items)
    }

    async fn write(&self, write: Write) -> Result<Written> {
        let places = [place(&write)];
        self.touch(&places);
        let answer = self.inner.write(write).await;
        self.touch(&places);
        answer
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted> {
        let places: Vec<_> = writes.iter().map(place).collect();
        self.touch(&places);
        let answer = self.inner.transact(writes).await;
        self.touch(&places);
        answer
    }

    async fn query(&self, query: Query) -> Result<Found> {
        let partition = if query.index.is_some() { "" } else { query.partition.as_str() };
        let before = self.stamp(query.table, partition);
        let place = query.start.as_ref().map(|start| {
            let mut parts: Vec<_> = start.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
            parts.sort();
            parts
        });
        let question = format!("{:?} {place:?}", Query { start: None, ..query.clone() });
        if let Some((_, found)) = self.found.lock().get(&question).filter(|(at, _)| *at == before) {
            return Ok(found.clone());
        }
        let found = self.inner.query(query).await?;
        self.found.lock().insert(question, (before, found.clone()));
        Ok(found)
    }

    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()> {
        let places: Vec<_> = keys.iter().map(|key| (table, text(key, table.key().0))).collect();
        self.touch(&places);
        let answer = self.inner.remove(table, keys).await;
        self.touch(&places);
        answer
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}
