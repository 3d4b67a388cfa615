//! Work: what one batch of calls does to the table and to the memory, before it is synced.
//!
//! ```text
//! begin ─▶ tick ─▶ tidy ─▶ call ─▶ call ─▶ … ─▶ settle ─▶ commit (synced) ─▶ answers, changes, wake-ups
//!                          └── each looks first and writes last: a refused call has written nothing
//! ```

mod documents;
mod journal;
mod keep;
mod lease;
mod queues;
mod runners;
mod tasks;
mod unreadable;

use redb::Table;
use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::store_clock::StoreClock;
use weaver_core::time::Timestamp;

use crate::codec::{StoredQueue, Writer, encode_queue};
use crate::keys;
use crate::memory::{Counters, Memory};
use crate::trouble::Outcome;
use crate::unreadable::find_task;

pub(crate) use documents::{document, finding as document_finding};
pub(crate) use journal::StoredStream;

/// A batch under way.
pub(crate) struct Work<'a> {
    pub(crate) table: Table<'a, &'static [u8], &'static [u8]>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) clock: &'a StoreClock,
    /// Whether anything was written: if not, there is nothing to sync.
    pub(crate) wrote: bool,
    /// How many tasks this batch has ended.
    ended: usize,
    /// How many unique keys it has written.
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

    /// The store's time: never goes back, not even over a restart.
    pub(crate) fn now(&self) -> Timestamp {
        self.memory.index.now()
    }

    /// Takes note of the time: what is due becomes ready.
    pub(crate) fn tick(&mut self) {
        self.memory.index.watched = !self.memory.waiters.is_empty();
        self.memory.index.tick(self.clock.now());
    }

    /// Removes some of what is past its time: as much as this batch has added, and more. What is over a limit
    /// is gone before long, and no batch pays for all.
    pub(crate) fn tidy(&mut self) -> Outcome<()> {
        self.forget_keys(2 * self.new_keys + 16)?;
        self.retire(2 * self.ended + 16)?;
        self.empty_trash(256)
    }

    /// Writes what the batch changed of the queues' counts and the counters.
    pub(crate) fn settle(&mut self) -> Outcome<()> {
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

    /// Writes a row.
    pub(crate) fn put(&mut self, key: &[u8], encode: impl FnOnce(&mut Writer)) -> Outcome<()> {
        self.writer.clear();
        encode(&mut self.writer);
        let (tag, rest) = key.split_first().unwrap_or((&0, &[]));
        self.table.insert(key, self.writer.seal(*tag, rest))?;
        self.wrote = true;
        Ok(())
    }

    /// Writes a row whose key says everything.
    pub(crate) fn put_mark(&mut self, key: &[u8]) -> Outcome<()> {
        self.put(key, |_| {})
    }

    /// Removes a row; says whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Outcome<bool> {
        let removed = self.table.remove(key)?.is_some();
        self.wrote |= removed;
        Ok(removed)
    }

    /// The number of a namespace; gives it one if it has none.
    pub(crate) fn number_or_new(&mut self, namespace: &Namespace) -> Outcome<u32> {
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

    fn save_queue(&mut self, namespace: &Namespace, queue: &weaver_core::name::QueueName) -> Outcome<()> {
        // Its bytes stay as they are until it is set again; its counts are counted anew when the store is
        // opened.
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

    /// Reads a task that the index knows, or one that has ended.
    pub(crate) fn load(
        &mut self,
        namespace: &Namespace,
        id: TaskId,
    ) -> Outcome<Option<weaver_core::task::TaskRecord>> {
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

    /// Reads a task from its rows. One that cannot be read is quarantined, and as good as not there: nothing
    /// is done to it.
    pub(crate) fn find(
        &self,
        namespace: &Namespace,
        number: u32,
        id: TaskId,
    ) -> Outcome<Option<weaver_core::task::TaskRecord>> {
        match find_task(&self.table, namespace, number, id)? {
            Some(Err(fault)) => {
                self.memory.quarantine.add(fault.finding(self.now()));
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
