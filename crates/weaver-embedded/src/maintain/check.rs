//! Reading everything there is, and comparing it with itself.

use std::collections::BTreeMap;

use weaver_core::id::TaskId;
use weaver_core::name::Namespace;
use weaver_core::ports::StateCounts;
use weaver_core::queue::index::Standing;

use crate::EmbeddedStore;
use crate::codec::{
    decode_directive, decode_document, decode_entry, decode_group, decode_queue, decode_spec,
    decode_unique_key,
};
use crate::error::StoreError;
use crate::keys;
use crate::memory::Counters;
use crate::rows;
use crate::store::Snapshot;
use crate::trouble::{OfRow, Outcome, Trouble};
use crate::work::{StoredStream, decode_counters};

/// The most problems a report lists.
const PROBLEMS_MAX: usize = 100;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// So many rows were read, each with its checksum.
    pub rows: u64,
    /// So many tasks.
    pub tasks: u64,
    /// What is wrong, at most a hundred of it.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
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
    /// Reads every row of one moment, verifies its checksum, and compares: each task has what it needs and is
    /// found under everything it is looked up by; counts are what counting gives. (The pages of the file
    /// itself were checked when it was opened.) The store goes on meanwhile. Blocks: call it where that is
    /// allowed.
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

/// What is gathered on the way, to be compared in the end.
#[derive(Default)]
struct Check {
    report: CheckReport,
    counters: Counters,
    names: BTreeMap<u32, Namespace>,
    queues: BTreeMap<(u32, String), StateCounts>,
    groups: BTreeMap<(u32, String), StateCounts>,
    /// Rows by tag.
    found: BTreeMap<u8, u64>,
    /// Rows the tasks ask for, by tag.
    expected: BTreeMap<u8, u64>,
}

impl Check {
    fn read_all(&mut self, table: &Snapshot) -> Outcome<()> {
        let counters = rows::read(table, &keys::meta("counters"), decode_counters)?;
        self.counters = counters.unwrap_or_default();
        for row in rows::scan_all(table, &[])? {
            let (key, value) = row?;
            let key = key.value();
            self.report.rows += 1;
            *self.found.entry(key.first().copied().unwrap_or_default()).or_default() += 1;
            match rows::body_of(key, value.value()).and_then(|body| self.read_row(table, key, body)) {
                Ok(()) => {}
                Err(Trouble::Refused(error)) => self.report.note(error.to_string()),
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    fn read_row(&mut self, table: &Snapshot, key: &[u8], body: &[u8]) -> Outcome<()> {
        match key.first().copied().unwrap_or_default() {
            keys::NAMESPACE => {
                let text = std::str::from_utf8(&key[1..]).ok();
                let name = text.and_then(|text| Namespace::try_from(text).ok());
                let name = name.ok_or_else(|| Trouble::damaged(key, "it is not a name"))?;
                let number = rows::namespace_number(table, &name)?.unwrap_or_default();
                self.names.insert(number, name);
            }
            keys::SPEC => self.read_task(table, key, body)?,
            keys::LIVE | keys::FINISHED => {
                let spec = [&[keys::SPEC], &key[1..]].concat();
                if table.get(spec.as_slice())?.is_none() {
                    return Err(Trouble::damaged(key, "nothing says what was asked for"));
                }
            }
            keys::QUEUE => drop(decode_queue(body).of_row(key)?),
            keys::GROUP => drop(decode_group(body).of_row(key)?),
            keys::UNIQUE => {
                if decode_unique_key(body).of_row(key)?.task.0 >= self.counters.next_task {
                    return Err(Trouble::damaged(key, "it names a task that there never was"));
                }
            }
            keys::DOCUMENT => {
                let stored = decode_document(body).of_row(key)?;
                *self.expected.entry(keys::DOCUMENT_DUE).or_default() += u64::from(stored.due.is_some());
            }
            keys::STREAM => {
                let stream = StoredStream::decode(body).of_row(key)?;
                if stream.number >= self.counters.next_stream {
                    return Err(Trouble::damaged(key, "its number was never given out"));
                }
            }
            keys::ENTRY => drop(decode_entry(body).of_row(key)?),
            keys::DIRECTIVE => drop(decode_directive(body).of_row(key)?),
            keys::META | keys::LOOKUP | keys::ENDED | keys::UNIQUE_UNTIL | keys::DOCUMENT_DUE => {}
            keys::TRASH | keys::RUNNER => {}
            _ => return Err(Trouble::damaged(key, "no version of Weaver writes such a row")),
        }
        Ok(())
    }

    /// A task: its rows, and what it adds to the counts.
    fn read_task(&mut self, table: &Snapshot, key: &[u8], body: &[u8]) -> Outcome<()> {
        decode_spec(body).of_row(key)?;
        self.report.tasks += 1;
        let (number, id) = match (key.get(1..5).and_then(|bytes| bytes.first_chunk()), keys::id_of(key)) {
            (Some(number), Some(id)) => (u32::from_be_bytes(*number), id),
            _ => return Err(Trouble::damaged(key, "it is not a key")),
        };
        let name = self.names.get(&number).cloned();
        let name = name.ok_or_else(|| Trouble::damaged(key, "its namespace is not known"))?;
        let Some(record) = rows::read_task(table, &name, number, id)? else { return Ok(()) };
        let tag = if Standing::of(&record).is_live() { keys::LIVE } else { keys::FINISHED };
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
            self.report.note(format!("task {id} has a number that was never given out"));
        }
        let queue = (number, record.spec.queue.to_string());
        self.queues.entry(queue).or_default().add(record.state);
        if let Some(group) = &record.spec.origin().task_group_id {
            self.groups.entry((number, group.to_string())).or_default().add(record.state);
        }
        Ok(())
    }

    fn compare(&mut self, table: &Snapshot) -> Outcome<()> {
        let tags = [keys::LIVE, keys::FINISHED, keys::LOOKUP, keys::ENDED, keys::DOCUMENT_DUE];
        for tag in tags {
            let count = |counts: &BTreeMap<u8, u64>| counts.get(&tag).copied().unwrap_or_default();
            let (found, expected) = (count(&self.found), count(&self.expected));
            if found != expected {
                let kind = keys::describe(&[tag]);
                self.report.note(format!("{kind}: {found} rows are there and {expected} should be"));
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
            self.report.note(format!("{what} counts {stored:?}, and counting gives {counted:?}"));
        }
    }
}
