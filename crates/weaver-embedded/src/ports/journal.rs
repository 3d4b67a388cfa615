//! The port `Journal`.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::limits::check_page;
use weaver_core::ports::{Entry, Journal, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore, check_entries};

use crate::EmbeddedStore;
use crate::codec::decode_entry;
use crate::fault::{OfRow, StoreResult};
use crate::keys;
use crate::rows::{self, Rows};
use crate::work::StoredStream;

/// Entries removed per batch, so that trimming a large log does not delay other requests.
const TRIM_STEP: usize = 1024;

#[async_trait]
impl Journal for EmbeddedStore {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        stream.validate()?;
        check_entries(bodies)?;
        let (stream, bodies) = (stream.clone(), bodies.to_vec());
        self.write(move |work| work.append(&stream, &bodies)).await
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        check_page(limit)?;
        let read = self.read(|table| {
            let Some(namespace) = rows::namespace_number(table, &stream.namespace)? else { return Ok(None) };
            let key = keys::named(keys::STREAM, namespace, &stream.name);
            let Some(stored) = rows::read(table, &key, StoredStream::decode)? else { return Ok(None) };
            read_page(table, stored.number, from, limit as usize).map(Some)
        });
        Ok(read.await?.unwrap_or(JournalPage { entries: Vec::new(), more: false }))
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        loop {
            let stream = stream.clone();
            if !self.write(move |work| work.trim(&stream, before, TRIM_STEP)).await? {
                return Ok(());
            }
        }
    }
}

fn read_page(table: &impl Rows, stream: u64, from: ReadFrom, limit: usize) -> StoreResult<JournalPage> {
    let first = |seq: u64| Bound::Included(keys::entry(stream, seq).to_vec());
    let last = Bound::Included(keys::entry(stream, u64::MAX).to_vec());
    let start = match from {
        ReadFrom::After(seq) if seq.0 == u64::MAX => {
            return Ok(JournalPage { entries: Vec::new(), more: false });
        }
        ReadFrom::After(seq) => seq.0 + 1,
        ReadFrom::Last(0) => return Ok(JournalPage { entries: Vec::new(), more: false }),
        ReadFrom::Last(count) => {
            // Sequence numbers may have gaps, so the start is found by a reverse scan.
            let back = rows::scan(table, &[keys::ENTRY], first(0), last.clone())?.rev();
            let mut start = u64::MAX;
            for row in back.take(count as usize) {
                start = keys::id_of(row?.0.value()).map_or(start, |seq| seq.0);
            }
            start
        }
    };
    let mut entries = Vec::new();
    for row in rows::scan(table, &[keys::ENTRY], first(start), last)? {
        let (key, value) = row?;
        if entries.len() == limit {
            return Ok(JournalPage { entries, more: true });
        }
        let stored = decode_entry(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
        let seq = Seq(keys::id_of(key.value()).map_or(0, |seq| seq.0));
        entries.push(Entry { seq, at: stored.at, body: stored.body });
    }
    Ok(JournalPage { entries, more: false })
}
