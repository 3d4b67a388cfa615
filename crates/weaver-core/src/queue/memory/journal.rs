//! Journal streams in memory.

use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;
use crate::id::TaskKey;
use crate::limits::check_page;
use crate::ports::{Entry, Journal, JournalPage, ReadFrom, Seq, StreamKey, TrimBefore, check_entries};
use crate::queue::memory::InMemoryQueue;
use crate::time::Timestamp;

/// The most entries one stream keeps in memory; above it the oldest are dropped. More than an attempt's log
/// can have (a worker limits it to 4 MiB, with 16 bytes for each line), so that its beginning is kept.
const STREAM_MAX_ENTRIES: usize = 300_000;

#[derive(Debug, Default)]
pub(super) struct JournalState {
    // Sorted, so that the streams of a task are adjacent when it is purged.
    streams: BTreeMap<StreamKey, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    entries: VecDeque<Entry>,
    last: Seq,
}

impl JournalState {
    /// Adds entries; returns the number of the last one.
    pub(super) fn append(&mut self, stream: &StreamKey, bodies: &[Bytes], at: Timestamp) -> Seq {
        if bodies.is_empty() {
            return self.streams.get(stream).map_or(Seq(0), |stream| stream.last);
        }
        let stream = self.streams.entry(stream.clone()).or_default();
        for body in bodies {
            stream.last.0 += 1;
            if stream.entries.len() == STREAM_MAX_ENTRIES {
                stream.entries.pop_front();
            }
            stream.entries.push_back(Entry { seq: stream.last, at, body: body.clone() });
        }
        stream.last
    }

    /// Forgets the streams of a purged task.
    pub(super) fn forget_task(&mut self, key: &TaskKey) {
        if self.streams.is_empty() {
            return;
        }
        let prefix = StreamKey::of_task(key);
        let first = StreamKey::new(key.namespace.clone(), prefix.as_str());
        let streams = self.streams.range(first..).map(|(stream, _)| stream);
        let of_task = streams
            .take_while(|stream| stream.namespace == key.namespace && stream.name.starts_with(&prefix));
        for stream in of_task.cloned().collect::<Vec<_>>() {
            self.streams.remove(&stream);
        }
    }
}

#[async_trait]
impl Journal for InMemoryQueue {
    async fn append_entries(&self, stream: &StreamKey, bodies: &[Bytes]) -> Result<Seq> {
        stream.validate()?;
        check_entries(bodies)?;
        let at = self.clock.now().steady;
        Ok(self.journal.lock().append(stream, bodies, at))
    }

    async fn read_entries(&self, stream: &StreamKey, from: ReadFrom, limit: u32) -> Result<JournalPage> {
        check_page(limit)?;
        let state = self.journal.lock();
        let Some(stream) = state.streams.get(stream) else {
            return Ok(JournalPage { entries: Vec::new(), more: false });
        };
        let start = match from {
            ReadFrom::After(seq) => stream.entries.partition_point(|entry| entry.seq <= seq),
            ReadFrom::Last(count) => stream.entries.len().saturating_sub(count as usize),
        };
        let entries: Vec<_> = stream.entries.iter().skip(start).take(limit as usize).cloned().collect();
        let more = start + entries.len() < stream.entries.len();
        Ok(JournalPage { entries, more })
    }

    async fn trim_entries(&self, stream: &StreamKey, before: TrimBefore) -> Result<()> {
        let mut state = self.journal.lock();
        let Some(stream) = state.streams.get_mut(stream) else { return Ok(()) };
        let kept_from = match before {
            TrimBefore::Seq(seq) => stream.entries.partition_point(|entry| entry.seq < seq),
            TrimBefore::Time(instant) => stream.entries.partition_point(|entry| entry.at < instant),
        };
        // The stream itself stays: its numbers go on where they were.
        stream.entries.drain(..kept_from);
        Ok(())
    }
}
