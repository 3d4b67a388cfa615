//! The port `Journal`: a head item with the last sequence number, and chunks of entries, one per append and
//! 350 KB, whose key is their last sequence number.

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::limits::check_page;
use weaver_core::ports::{Entry, Journal, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore, check_entries};

use crate::codec::texts::bytes_attribute;
use crate::codec::value::{Attributes, n, us};
use crate::db::{Item, Query, Range, TRANSACTION_MAX, Table, Transacted, Write};
use crate::keys;
use crate::ports::overdue::data_key;
use crate::records::too_contended;
use crate::store::DynamoStore;

/// Maximum size of a chunk: an item holds at most 400 KB, and entries have some overhead.
const CHUNK_MAX_BYTES: usize = 350 * 1024;
/// Maximum overhead of an entry, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 8;
/// Chunks read per query.
const PAGE: u32 = 32;
/// Maximum number of attempts of a contended append.
const TRIES_MAX: u32 = 30;

/// The head item of a stream.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    tail: u64,
    /// Entries with lower sequence numbers are trimmed.
    floor: u64,
    exists: bool,
}

#[async_trait]
impl Journal for DynamoStore {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        stream.validate()?;
        check_entries(bodies)?;
        if chunks(bodies).len() >= TRANSACTION_MAX {
            // An append is one transaction; only very many tiny entries exceed it.
            let (value, max) = (bodies.len() as u64, 100_000);
            return Err(Invalid::new("bodies", Problem::OutOfRange { value, min: 0, max }).into());
        }
        for attempt in 0..TRIES_MAX {
            let head = self.head(stream).await?;
            if bodies.is_empty() {
                return Ok(Seq(head.tail));
            }
            match self.db.transact(self.append_writes(stream, head, bodies)).await? {
                Transacted::Applied => return Ok(Seq(head.tail + bodies.len() as u64)),
                Transacted::ConditionFailed(_) | Transacted::Conflict => {
                    crate::db::backoff(attempt.min(5)).await;
                }
            }
        }
        Err(too_contended(stream))
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        check_page(limit)?;
        let head = self.head(stream).await?;
        if !head.exists {
            return Ok(JournalPage { entries: Vec::new(), more: false });
        }
        match from {
            ReadFrom::After(seq) => self.read_after(stream, head, seq, limit as usize).await,
            ReadFrom::Last(count) => {
                let first = (head.tail + 1).saturating_sub(count.into()).max(head.floor).max(1);
                self.read_after(stream, head, Seq(first - 1), limit as usize).await
            }
        }
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        let head = self.head(stream).await?;
        if !head.exists {
            return Ok(());
        }
        let floor = match before {
            TrimBefore::Seq(seq) => seq.0.min(head.tail + 1),
            TrimBefore::Time(instant) => self.first_at(stream, head, instant).await?,
        };
        if floor <= head.floor {
            return Ok(());
        }
        let write = Write::update(Table::Data, keys::head(stream), "SET floor_at = :floor")
            .when("attribute_not_exists(floor_at) OR floor_at < :floor")
            .value(":floor", n(floor));
        // A failed condition means that another process has trimmed further.
        let _ = self.db.write(write).await?;
        let trimmed =
            Query::table(Table::Data, keys::stream(stream)).range(Range::Before(keys::padded(floor)));
        let items = self.query_all(trimmed).await?;
        self.db.remove(Table::Data, items.iter().map(data_key).collect()).await
    }
}

impl DynamoStore {
    async fn head(&self, stream: &StreamKey) -> Result<Head> {
        if stream.validate().is_err() {
            return Ok(Head::default());
        }
        let found = self.db.get(Table::Data, vec![keys::head(stream)]).await?;
        Ok(found.first().map_or_else(Head::default, |item| Head {
            tail: item.number("tail").unwrap_or_default(),
            floor: item.number("floor_at").unwrap_or_default(),
            exists: true,
        }))
    }

    fn append_writes(&self, stream: &StreamKey, head: Head, bodies: &[Bytes]) -> Vec<Write> {
        let tail = head.tail + bodies.len() as u64;
        let counted =
            Write::update(Table::Data, keys::head(stream), "SET tail = :tail").value(":tail", n(tail));
        let counted = match head.exists {
            true => counted.when("tail = :seen").value(":seen", n(head.tail)),
            false => counted.when("attribute_not_exists(pk)"),
        };
        let mut writes = vec![counted];
        let (mut last, now) = (head.tail, self.now());
        for chunk in chunks(bodies) {
            let first = last + 1;
            last += chunk.len() as u64;
            let mut item = keys::data(&keys::stream(stream), &keys::padded(last));
            item.put_number("first", first);
            item.insert("at_us".to_owned(), us(now));
            let entries = chunk.iter().map(|body| bytes_attribute(body)).collect();
            item.insert("entries".to_owned(), AttributeValue::L(entries));
            writes.push(Write::put(Table::Data, item));
        }
        writes
    }

    /// Reads up to the tail that was read first: everything up to it is committed.
    async fn read_after(
        &self,
        stream: &StreamKey,
        head: Head,
        after: Seq,
        limit: usize,
    ) -> Result<JournalPage> {
        let from = after.0.max(head.floor.saturating_sub(1));
        let mut entries = Vec::new();
        if from >= head.tail {
            return Ok(JournalPage { entries, more: false });
        }
        let range = Range::Between(keys::padded(from + 1), keys::padded(head.tail));
        let query = Query::table(Table::Data, keys::stream(stream)).range(range).limit(PAGE);
        let mut start = None;
        loop {
            let found = self.db.query(query.clone().after(start)).await?;
            for entry in found.items.iter().flat_map(entries_of) {
                if entry.seq.0 <= from || entry.seq.0 > head.tail {
                    continue;
                }
                if entries.len() == limit {
                    return Ok(JournalPage { entries, more: true });
                }
                entries.push(entry);
            }
            match found.next {
                Some(next) => start = Some(next),
                None => return Ok(JournalPage { entries, more: false }),
            }
        }
    }

    /// The first sequence number stored at or after an instant.
    async fn first_at(
        &self,
        stream: &StreamKey,
        head: Head,
        instant: weaver_core::time::Timestamp,
    ) -> Result<u64> {
        let query = Query::table(Table::Data, keys::stream(stream)).limit(PAGE);
        let mut start = None;
        loop {
            let found = self.db.query(query.clone().after(start)).await?;
            for item in &found.items {
                if item.instant("at_us").is_some_and(|at| at >= instant) {
                    return Ok(item.number("first").unwrap_or_default().max(head.floor));
                }
            }
            match found.next {
                Some(next) => start = Some(next),
                None => return Ok(head.tail + 1),
            }
        }
    }
}

/// Splits an append into chunks that fit into an item.
fn chunks(bodies: &[Bytes]) -> Vec<&[Bytes]> {
    let (mut chunks, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (index, body) in bodies.iter().enumerate() {
        let size = body.len() + ENTRY_OVERHEAD_BYTES;
        if bytes + size > CHUNK_MAX_BYTES && index > first {
            chunks.push(&bodies[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += size;
    }
    chunks.push(&bodies[first..]);
    chunks
}

fn entries_of(item: &Item) -> Vec<Entry> {
    let (Some(first), Some(at)) = (item.number("first"), item.instant("at_us")) else { return Vec::new() };
    let bodies = item.get("entries").and_then(|entries| entries.as_l().ok());
    let body = |value: &AttributeValue| match value {
        AttributeValue::B(blob) => Bytes::copy_from_slice(blob.as_ref()),
        _ => Bytes::new(),
    };
    let numbered = bodies.into_iter().flatten().zip(first..);
    numbered.map(|(value, seq)| Entry { seq: Seq(seq), at, body: body(value) }).collect()
}
