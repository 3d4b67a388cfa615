//! Journal streams. Entries are stored under the stream's number, not its name: a discarded stream is
//! unlinked at once, and its entries are removed a few per batch, however many there are.

use std::ops::Bound;

use bytes::Bytes;
use weaver_core::id::TaskKey;
use weaver_core::ports::{Seq, StreamKey, TrimBefore};

use crate::codec::{FORMAT_VERSION, Reader, Undecodable, Writer, decode_entry, encode_entry};
use crate::fault::{OfRow, StoreResult};
use crate::keys;
use crate::rows;
use crate::work::Work;

/// A stream: the number that its entries are stored under, and its last sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredStream {
    pub(crate) number: u64,
    pub(crate) last: u64,
}

impl StoredStream {
    pub(crate) fn encode(self, writer: &mut Writer) {
        writer.u8(FORMAT_VERSION);
        writer.varint(self.number);
        writer.varint(self.last);
    }

    pub(crate) fn decode(body: &[u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::of_version(body)?;
        let stream = Self { number: reader.varint("number")?, last: reader.varint("last")? };
        reader.finish("stream")?;
        Ok(stream)
    }
}

impl Work<'_> {
    pub(crate) fn append(&mut self, stream: &StreamKey, bodies: &[Bytes]) -> StoreResult<Seq> {
        let at = self.clock.now().steady;
        if bodies.is_empty() && self.memory.names.number(&stream.namespace).is_none() {
            return Ok(Seq(0));
        }
        let namespace = self.number_or_new(&stream.namespace)?;
        let key = keys::named(keys::STREAM, namespace, &stream.name);
        let stored = rows::read(&self.table, &key, StoredStream::decode)?;
        if bodies.is_empty() {
            return Ok(Seq(stored.map_or(0, |stored| stored.last)));
        }
        let mut stored = stored.unwrap_or_else(|| {
            let number = self.memory.counters.next_stream;
            self.memory.counters.next_stream += 1;
            StoredStream { number, last: 0 }
        });
        for body in bodies {
            stored.last += 1;
            self.put(&keys::entry(stored.number, stored.last), |writer| encode_entry(writer, at, body))?;
        }
        self.put(&key, |writer| stored.encode(writer))?;
        Ok(Seq(stored.last))
    }

    /// Removes at most `limit` entries from the start of a stream; returns whether there may be more.
    pub(crate) fn trim(&mut self, stream: &StreamKey, before: TrimBefore, limit: usize) -> StoreResult<bool> {
        let Some(namespace) = self.memory.names.number(&stream.namespace) else { return Ok(false) };
        let key = keys::named(keys::STREAM, namespace, &stream.name);
        let Some(stored) = rows::read(&self.table, &key, StoredStream::decode)? else { return Ok(false) };
        let mut over = Vec::new();
        let first = Bound::Included(keys::entry(stored.number, 0).to_vec());
        let last = Bound::Included(keys::entry(stored.number, u64::MAX).to_vec());
        for row in rows::scan(&self.table, &[keys::ENTRY], first, last)?.take(limit) {
            let (key, value) = row?;
            let goes = match before {
                TrimBefore::Seq(seq) => keys::id_of(key.value()).is_some_and(|number| number.0 < seq.0),
                TrimBefore::Time(instant) => {
                    let body = rows::body_of(key.value(), value.value())?;
                    decode_entry(body).of_row(key.value())?.at < instant
                }
            };
            if !goes {
                break;
            }
            over.push(key.value().to_vec());
        }
        for key in &over {
            self.delete(key)?;
        }
        Ok(over.len() == limit)
    }

    /// Unlinks the streams of a purged task.
    pub(super) fn discard_streams(&mut self, namespace: u32, task: &TaskKey) -> StoreResult<()> {
        let prefix = keys::named(keys::STREAM, namespace, &StreamKey::of_task(task));
        let mut streams = Vec::new();
        for row in rows::scan_all(&self.table, &prefix)? {
            let (key, value) = row?;
            let body = rows::body_of(key.value(), value.value())?;
            streams.push((key.value().to_vec(), StoredStream::decode(body).of_row(key.value())?.number));
        }
        for (key, number) in streams {
            self.delete(&key)?;
            self.put_mark(&keys::trash(number))?;
            self.memory.trash = true;
        }
        Ok(())
    }

    /// Removes at most `limit` entries of discarded streams.
    pub(super) fn empty_trash(&mut self, limit: usize) -> StoreResult<()> {
        if !self.memory.trash {
            return Ok(());
        }
        let first = rows::scan_all(&self.table, &[keys::TRASH])?.next().transpose()?;
        let Some(trash) = first.map(|(key, _)| key.value().to_vec()) else {
            self.memory.trash = false;
            return Ok(());
        };
        let number = keys::id_of(&trash).map_or(0, |number| number.0);
        let mut entries = Vec::new();
        let first = Bound::Included(keys::entry(number, 0).to_vec());
        let last = Bound::Included(keys::entry(number, u64::MAX).to_vec());
        for row in rows::scan(&self.table, &[keys::ENTRY], first, last)?.take(limit) {
            entries.push(row?.0.value().to_vec());
        }
        for key in &entries {
            self.delete(key)?;
        }
        if entries.len() < limit {
            self.delete(&trash)?;
        }
        Ok(())
    }
}
