//! One batch: what its requests change in the table and in memory, before it is fsynced.
//!
//! ```text
//! begin ─▶ tick ─▶ request ─▶ request ─▶ … ─▶ apply_retention ─▶ write_counters ─▶ commit (fsync) ─▶ answers
//!                  └── each reads first and writes last: a refused request has written nothing
//! ```

mod documents;
mod journal;
mod lease;
mod queues;
mod retention;
mod runners;
mod tasks;
mod unreadable;

use redb::Table;
use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::store_clock::StoreClock;
use weaver_core::time::Timestamp;

use crate::codec::{StoredQueue, Writer, encode_queue};
use crate::fault::StoreResult;
use crate::keys;
use crate::memory::{Counters, Memory};
use crate::unreadable::find_task;

pub(crate) use documents::{document, finding as document_finding};
pub(crate) use journal::StoredStream;

/// The batch that is being run.
pub(crate) struct Work<'a> {
    pub(crate) table: Table<'a, &'static [u8], &'static [u8]>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) clock: &'a StoreClock,
    /// Whether anything was written: if not, there is nothing to fsync.
    pub(crate) wrote: bool,
    /// Tasks finished by this batch.
    ended: usize,
    /// Unique keys written by this batch.
    new_keys: usize,
    writer: Writer,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        table: Table<'a, &'static [u8], &'static [u8]>,
        memory: &'a mut Memory,
        clock: &'a StoreClock,
    ) -> Self {
        Self { table, memory, clock, wrote: false, ended: 0, new_keys: 0, writer: Writer::new() }
    }

    /// The store's time: it never goes back, not even across a restart.
    pub(crate) fn now(&self) -> Timestamp {
        self.memory.index.now()
    }

    /// Advances the index to the current time: due tasks become ready.
    pub(crate) fn tick(&mut self) {
        self.memory.index.has_waiters = !self.memory.waiters.is_empty();
        self.memory.index.tick(self.clock.now());
    }

    /// Removes some expired rows: more than this batch added, so that retention catches up while no batch
    /// pays for all of it.
    pub(crate) fn apply_retention(&mut self) -> StoreResult<()> {
        self.expire_unique_keys(2 * self.new_keys + 16)?;
        self.purge_finished(2 * self.ended + 16)?;
        self.empty_trash(256)
    }

    /// Writes the counts of changed queues, and the store's counters.
    pub(crate) fn write_counters(&mut self) -> StoreResult<()> {
        let touched: Vec<_> = self.memory.touched.drain().collect();
        for (namespace, queue) in touched {
            self.save_queue(&namespace, &queue)?;
        }
        if !self.wrote {
            return Ok(());
        }
        self.memory.counters.latest = self.now();
        if self.memory.counters != self.memory.stored_counters {
            let counters = self.memory.counters;
            self.put(&keys::meta("counters"), |writer| encode_counters(writer, &counters))?;
            self.memory.stored_counters = counters;
        }
        Ok(())
    }

    /// Writes a row: encodes the body and seals it with a checksum.
    pub(crate) fn put(&mut self, key: &[u8], encode: impl FnOnce(&mut Writer)) -> StoreResult<()> {
        self.writer.clear();
        encode(&mut self.writer);
        let (tag, rest) = key.split_first().unwrap_or((&0, &[]));
        self.table.insert(key, self.writer.seal(*tag, rest))?;
        self.wrote = true;
        Ok(())
    }

    /// Writes a row with an empty body, whose key is all its content.
    pub(crate) fn put_mark(&mut self, key: &[u8]) -> StoreResult<()> {
        self.put(key, |_| {})
    }

    /// Removes a row; returns whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> StoreResult<bool> {
        let removed = self.table.remove(key)?.is_some();
        self.wrote |= removed;
        Ok(removed)
    }

    /// The number of a namespace; assigns one if it has none.
    pub(crate) fn number_or_new(&mut self, namespace: &Namespace) -> StoreResult<u32> {
        if let Some(number) = self.memory.names.number(namespace) {
            return Ok(number);
        }
        let number = self.memory.names.next();
        self.put(&keys::namespace(namespace.as_str()), |writer| {
            writer.u8(crate::codec::FORMAT_VERSION);
            writer.varint(number.into());
        })?;
        self.memory.names.add(namespace.clone(), number);
        Ok(number)
    }

    fn save_queue(&mut self, namespace: &Namespace, queue: &weaver_core::name::QueueName) -> StoreResult<()> {
        // An unreadable row stays unchanged until its settings are written; its counts are recounted on open.
        if self.memory.unread_queues.contains(&(namespace.clone(), queue.clone())) {
            return Ok(());
        }
        let number = self.number_or_new(namespace)?;
        let key = keys::named(keys::QUEUE, number, queue.as_str());
        match self.memory.index.queue(namespace, queue) {
            Some((settings, version, counts)) => {
                let stored = StoredQueue { counts, settings, version };
                self.put(&key, |writer| encode_queue(writer, &stored))
            }
            None => self.delete(&key).map(drop),
        }
    }

    /// Reads a task, live or finished, from the cache or its rows.
    pub(crate) fn load(
        &mut self,
        namespace: &Namespace,
        id: TaskId,
    ) -> StoreResult<Option<weaver_core::task::TaskRecord>> {
        if let Some(record) = self.memory.records.take(id) {
            if record.key.namespace == *namespace {
                return Ok(Some(record));
            }
            self.memory.records.put(&record);
            return Ok(None);
        }
        let Some(number) = self.memory.names.number(namespace) else { return Ok(None) };
        self.find(namespace, number, id)
    }

    /// Reads a task from its rows. An unreadable one is quarantined and returned as `None`, so nothing
    /// changes it.
    pub(crate) fn find(
        &self,
        namespace: &Namespace,
        number: u32,
        id: TaskId,
    ) -> StoreResult<Option<weaver_core::task::TaskRecord>> {
        match find_task(&self.table, namespace, number, id)? {
            Some(Err(unreadable)) => {
                self.memory.quarantine.add(unreadable.finding(self.now()));
                Ok(None)
            }
            found => Ok(found.and_then(Result::ok)),
        }
    }
}

pub(crate) fn encode_counters(writer: &mut Writer, counters: &Counters) {
    writer.u8(crate::codec::FORMAT_VERSION);
    writer.varint(counters.next_task);
    writer.varint(counters.next_stream);
    writer.varint(counters.last_document_version);
    writer.varint(counters.opens);
    writer.timestamp(counters.latest);
    writer.bool(counters.in_time_order);
}

pub(crate) fn decode_counters(body: &[u8]) -> Result<Counters, crate::codec::Undecodable> {
    let mut reader = crate::codec::Reader::of_version(body)?;
    let counters = Counters {
        next_task: reader.varint("next_task")?,
        next_stream: reader.varint("next_stream")?,
        last_document_version: reader.varint("last_document_version")?,
        opens: reader.varint("opens")?,
        latest: reader.timestamp("latest")?,
        in_time_order: reader.bool("in_time_order")?,
    };
    reader.finish("counters")?;
    Ok(counters)
}
