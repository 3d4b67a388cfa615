//! Consistency check: reads every row and cross-checks them.

use std::collections::BTreeMap;

use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::ports::StateCounts;
use weaver_core::queue::index::IndexState;

use crate::EmbeddedStore;
use crate::codec::{
    decode_directive, decode_document, decode_entry, decode_group, decode_queue, decode_spec,
    decode_unique_key,
};
use crate::error::StoreError;
use crate::fault::{OfRow, StoreFault, StoreResult};
use crate::keys;
use crate::memory::Counters;
use crate::rows;
use crate::store::Snapshot;
use crate::work::{StoredStream, decode_counters};

/// The most problems a report lists.
const PROBLEMS_MAX: usize = 100;

/// What [`EmbeddedStore::check`] read and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Rows read, each with its checksum verified.
    pub rows: u64,
    /// Tasks among them, live and finished.
    pub tasks: u64,
    /// One message per problem; at most 100 are reported.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether the check found no problem.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn note(&mut self, problem: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem.into());
        }
    }
}

impl EmbeddedStore {
    /// Reads every row of one snapshot, verifies its checksum, and checks that each task has all its rows and
    /// index entries and that stored counts are right. The pages of the file were verified when it was
    /// opened.
    ///
    /// The store stays in use meanwhile. Blocking: in async code, call it from `spawn_blocking`.
    pub fn check(&self) -> Result<CheckReport, StoreError> {
        let report = self.read_blocking(&|table: &Snapshot| {
            let mut check = Check::default();
            check.read_all(table)?;
            check.compare(table)?;
            Ok(check.report)
        })?;
        Ok(report)
    }
}

/// Collected while reading, compared at the end.
#[derive(Default)]
struct Check {
    report: CheckReport,
    counters: Counters,
    names: BTreeMap<u32, Namespace>,
    queues: BTreeMap<(u32, String), StateCounts>,
    groups: BTreeMap<(u32, String), StateCounts>,
    found: BTreeMap<u8, u64>,
    /// Rows that the tasks and documents require, by tag.
    expected: BTreeMap<u8, u64>,
}

impl Check {
    fn read_all(&mut self, table: &Snapshot) -> StoreResult<()> {
        let counters = rows::read(table, &keys::meta("counters"), decode_counters)?;
        self.counters = counters.unwrap_or_default();
        for row in rows::scan_all(table, &[])? {
            let (key, value) = row?;
            let key = key.value();
            self.report.rows += 1;
            *self.found.entry(key.first().copied().unwrap_or_default()).or_default() += 1;
            match rows::body_of(key, value.value()).and_then(|body| self.read_row(table, key, body)) {
                Ok(()) => {}
                Err(StoreFault::Refused(error)) => self.report.note(error.to_string()),
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    fn read_row(&mut self, table: &Snapshot, key: &[u8], body: &[u8]) -> StoreResult<()> {
        match key.first().copied().unwrap_or_default() {
            keys::NAMESPACE => {
                let text = std::str::from_utf8(&key[1..]).ok();
                let name = text.and_then(|text| Namespace::try_from(text).ok());
                let name = name.ok_or_else(|| StoreFault::damaged(key, "its name is invalid"))?;
                let number = rows::namespace_number(table, &name)?.unwrap_or_default();
                self.names.insert(number, name);
            }
            keys::SPEC => self.read_task(table, key, body)?,
            keys::LIVE | keys::FINISHED => {
                let spec = [&[keys::SPEC], &key[1..]].concat();
                if table.get(spec.as_slice())?.is_none() {
                    return Err(StoreFault::damaged(key, "its spec is missing"));
                }
            }
            keys::QUEUE => drop(decode_queue(body).of_row(key)?),
            keys::GROUP => drop(decode_group(body).of_row(key)?),
            keys::UNIQUE => {
                if decode_unique_key(body).of_row(key)?.task.0 >= self.counters.next_task {
                    return Err(StoreFault::damaged(key, "it refers to a task id that was never assigned"));
                }
            }
            keys::DOCUMENT => {
                let stored = decode_document(body).of_row(key)?;
                *self.expected.entry(keys::DOCUMENT_DUE).or_default() += u64::from(stored.due.is_some());
            }
            keys::STREAM => {
                let stream = StoredStream::decode(body).of_row(key)?;
                if stream.number >= self.counters.next_stream {
                    return Err(StoreFault::damaged(key, "its number was never assigned"));
                }
            }
            keys::ENTRY => drop(decode_entry(body).of_row(key)?),
            keys::DIRECTIVE => drop(decode_directive(body).of_row(key)?),
            keys::META | keys::LOOKUP | keys::ENDED | keys::UNIQUE_UNTIL | keys::DOCUMENT_DUE => {}
            keys::TRASH | keys::RUNNER => {}
            _ => return Err(StoreFault::damaged(key, "its kind is unknown")),
        }
        Ok(())
    }

    /// Checks the rows of a task and adds it to the counts.
    fn read_task(&mut self, table: &Snapshot, key: &[u8], body: &[u8]) -> StoreResult<()> {
        decode_spec(body).of_row(key)?;
        self.report.tasks += 1;
        let (number, id) = match (key.get(1..5).and_then(|bytes| bytes.first_chunk()), keys::id_of(key)) {
            (Some(number), Some(id)) => (u32::from_be_bytes(*number), id),
            _ => return Err(StoreFault::damaged(key, "its key is malformed")),
        };
        let name = self.names.get(&number).cloned();
        let name = name.ok_or_else(|| StoreFault::damaged(key, "its namespace is unknown"))?;
        let Some(record) = rows::read_task(table, &name, number, id)? else { return Ok(()) };
        let tag = if IndexState::of(&record).is_live() { keys::LIVE } else { keys::FINISHED };
        let mut wanted = keys::lookups(number, &record);
        wanted.push(keys::task(tag, number, id).to_vec());
        if record.state.is_terminal() {
            wanted.push(keys::lookup_end(number, id, record.state));
            let at = record.finished_at.unwrap_or(record.updated_at);
            wanted.push(keys::ended(at, number, id).to_vec());
        }
        for row in wanted {
            *self.expected.entry(row[0]).or_default() += 1;
            if table.get(row.as_slice())?.is_none() {
                self.report.note(format!("task {id}: its {} is missing", keys::describe(&row)));
            }
        }
        if id >= TaskId(self.counters.next_task) {
            self.report.note(format!("task {id} has an id that was never assigned"));
        }
        let queue = (number, record.spec.queue.to_string());
        self.queues.entry(queue).or_default().add(record.state);
        if let Some(group) = &record.spec.origin().task_group_id {
            self.groups.entry((number, group.to_string())).or_default().add(record.state);
        }
        Ok(())
    }

    fn compare(&mut self, table: &Snapshot) -> StoreResult<()> {
        let tags = [keys::LIVE, keys::FINISHED, keys::LOOKUP, keys::ENDED, keys::DOCUMENT_DUE];
        for tag in tags {
            let count = |counts: &BTreeMap<u8, u64>| counts.get(&tag).copied().unwrap_or_default();
            let (found, expected) = (count(&self.found), count(&self.expected));
            if found != expected {
                let kind = keys::describe(&[tag]);
                self.report.note(format!("{}: found {found} rows, expected {expected}", kind.trim_end()));
            }
        }
        for ((number, name), counted) in std::mem::take(&mut self.queues) {
            let key = keys::named(keys::QUEUE, number, &name);
            let stored = rows::read(table, &key, decode_queue)?.map(|stored| stored.counts);
            self.compare_counts(&key, stored, counted);
        }
        for ((number, name), counted) in std::mem::take(&mut self.groups) {
            let key = keys::named(keys::GROUP, number, &name);
            let stored = rows::read(table, &key, decode_group)?.map(|stored| stored.counts);
            self.compare_counts(&key, stored, counted);
        }
        Ok(())
    }

    fn compare_counts(&mut self, key: &[u8], stored: Option<StateCounts>, counted: StateCounts) {
        if stored.unwrap_or_default() != counted {
            let what = keys::describe(key);
            self.report.note(format!("{what}: stored counts are {stored:?}, actual counts {counted:?}"));
        }
    }
}
