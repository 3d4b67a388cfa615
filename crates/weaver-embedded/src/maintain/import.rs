//! Import of an export. It is idempotent: existing records are left unchanged.

use std::io::BufRead;

use weaver_core::error::Error;
use weaver_core::ports::{DocumentKey, StreamKey};
use weaver_core::store_clock::StoreNow;
use weaver_core::task::TaskRecord;

use crate::EmbeddedStore;
use crate::codec::{StoredDocument, StoredUniqueKey, encode_document, encode_entry, encode_unique_key};
use crate::error::StoreError;
use crate::fault::{StoreFault, StoreResult};
use crate::keys;
use crate::maintain::line::{EXPORT_VERSION, Line};
use crate::rows;
use crate::work::{StoredStream, Work};

/// Lines written per transaction.
const LINES_PER_STEP: usize = 2000;

/// What [`EmbeddedStore::import`] read and added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Lines read, with the header and the end marker.
    pub lines: u64,
    /// Records among them that were not in the store before.
    pub added: u64,
}

impl EmbeddedStore {
    /// Imports what [`export`](EmbeddedStore::export) wrote. Records that exist already are left unchanged. A
    /// task whose id another task has here is refused: import into an empty directory then.
    ///
    /// Lines are committed in batches; an interrupted import is completed by repeating it.
    pub async fn import(&self, input: impl BufRead) -> Result<Imported, StoreError> {
        let mut imported = Imported::default();
        let mut step = Vec::new();
        // Merged with other tasks, ids are no longer in order of creation.
        let mut ordered = self.write(|work| Ok(work.memory.counters.next_task == 1)).await?;
        let mut ended = false;
        for text in input.lines() {
            imported.lines += 1;
            let line = imported.lines;
            let refuse = |what: String| StoreError::Import { line, what };
            let text = text.map_err(|error| refuse(error.to_string()))?;
            let parsed = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
            match parsed {
                _ if ended => return Err(refuse("it follows the end marker".to_owned())),
                Line::WeaverExport { version, in_time_order, .. } if line == 1 => {
                    if version != EXPORT_VERSION {
                        return Err(refuse(format!("export format version {version} is not supported")));
                    }
                    ordered &= in_time_order;
                }
                _ if line == 1 => return Err(refuse("it is not the header of an export".to_owned())),
                Line::End { lines } if lines == line - 1 => ended = true,
                Line::End { lines } => return Err(refuse(format!("the end marker expects {lines} lines"))),
                parsed => step.push((line, parsed)),
            }
            if step.len() == LINES_PER_STEP {
                imported.added += self.import_step(std::mem::take(&mut step), ordered).await?;
            }
        }
        if !ended {
            let what = "the export is truncated: its end marker is missing".to_owned();
            return Err(StoreError::Import { line: imported.lines, what });
        }
        imported.added += self.import_step(step, ordered).await?;
        Ok(imported)
    }

    async fn import_step(&self, step: Vec<(u64, Line)>, ordered: bool) -> Result<u64, StoreError> {
        let done = self.write(move |work| {
            let mut added = 0;
            for (line, parsed) in step {
                match work.import(parsed, ordered) {
                    Ok(new) => added += u64::from(new),
                    Err(StoreFault::Refused(error)) => return Ok(Err((line, error))),
                    Err(broken) => return Err(broken),
                }
            }
            Ok(Ok(added))
        });
        done.await?.map_err(|(line, error)| StoreError::Import { line, what: error.to_string() })
    }
}

impl Work<'_> {
    /// Imports one line; returns whether it was new.
    fn import(&mut self, line: Line, ordered: bool) -> StoreResult<bool> {
        match line {
            Line::Task(record) => self.import_task(&record, ordered),
            Line::Queue { namespace, name, settings, version } => {
                let known = self.memory.index.queue(&namespace, &name);
                if known.is_some_and(|(_, known, _)| known >= version) {
                    return Ok(false);
                }
                settings.validate()?;
                self.memory.index.restore_queue(&namespace, &name, settings, version, &Default::default());
                self.memory.touched.insert((namespace, name));
                self.wrote = true;
                Ok(true)
            }
            Line::Unique { namespace, key, task, until } => {
                let number = self.number_or_new(&namespace)?;
                let key = keys::unique(number, &key.into());
                self.put_once(&key, |work| {
                    work.put_mark(&keys::unique_until(until, &key))?;
                    work.memory.oldest_key = work.memory.oldest_key.map(|oldest| oldest.min(until));
                    work.put(&key, |writer| encode_unique_key(writer, StoredUniqueKey { task, until }))
                })
            }
            Line::Document { namespace, kind, id, version, due, updated_at, body } => {
                let document = DocumentKey::new(namespace, kind, id);
                document.validate()?;
                let number = self.number_or_new(&document.namespace)?;
                let counters = &mut self.memory.counters;
                counters.last_document_version = counters.last_document_version.max(version.0);
                let stored = StoredDocument { version, due, updated_at, body: Some(body) };
                let key = keys::document(number, &document);
                self.put_once(&key, |work| {
                    if let Some(due) = due {
                        work.put_mark(&keys::document_due(number, &document, due))?;
                    }
                    work.put(&key, |writer| encode_document(writer, &stored))
                })
            }
            Line::Stream { namespace, name, last } => {
                let stream = StreamKey::new(namespace, name);
                stream.validate()?;
                let key = self.stream_key(&stream)?;
                self.put_once(&key, |work| {
                    let number = work.memory.counters.next_stream;
                    work.memory.counters.next_stream += 1;
                    work.put(&key, |writer| StoredStream { number, last }.encode(writer))
                })
            }
            Line::Entry { namespace, stream, seq, at, body } => {
                let key = self.stream_key(&StreamKey::new(namespace, stream))?;
                let stream = rows::read(&self.table, &key, StoredStream::decode)?;
                let stream = stream.ok_or_else(|| damaged("its stream is not defined before it"))?;
                let key = keys::entry(stream.number, seq);
                self.put_once(&key, |work| work.put(&key, |writer| encode_entry(writer, at, &body)))
            }
            Line::WeaverExport { .. } | Line::End { .. } => Err(damaged("it is out of place")),
        }
    }

    fn import_task(&mut self, record: &TaskRecord, ordered: bool) -> StoreResult<bool> {
        let number = self.number_or_new(&record.key.namespace)?;
        let id = record.key.id;
        if let Some(known) = self.load(&record.key.namespace, id)? {
            self.memory.records.put(&known);
            let same = known.created_at == record.created_at && known.spec.envelope == record.spec.envelope;
            return if same { Ok(false) } else { Err(damaged("another task has this id")) };
        }
        let counters = &mut self.memory.counters;
        counters.in_time_order &= ordered;
        counters.next_task = counters.next_task.max(id.0.saturating_add(1));
        let wall = self.clock.now().wall;
        self.memory.index.tick(StoreNow { steady: record.created_at, wall });
        self.insert(number, record)?;
        Ok(true)
    }

    /// Writes a row unless it exists; returns whether it was written.
    fn put_once(
        &mut self,
        key: &[u8],
        write: impl FnOnce(&mut Self) -> StoreResult<()>,
    ) -> StoreResult<bool> {
        use redb::ReadableTable;
        if self.table.get(key)?.is_some() {
            return Ok(false);
        }
        write(self).map(|()| true)
    }

    fn stream_key(&mut self, stream: &StreamKey) -> StoreResult<Vec<u8>> {
        let number = self.number_or_new(&stream.namespace)?;
        Ok(keys::named(keys::STREAM, number, &stream.name))
    }
}

fn damaged(what: &str) -> StoreFault {
    let remedy = "create a new export".to_owned();
    StoreFault::Refused(Error::Damaged { what: format!("the line ({what})"), remedy })
}
