//! Export as JSON lines.

use std::io::Write;

use weaver_core::name::{Namespace, QueueName};
use weaver_core::time::Timestamp;

use crate::EmbeddedStore;
use crate::codec::{decode_document, decode_entry, decode_queue, decode_unique_key};
use crate::error::StoreError;
use crate::fault::{OfRow, StoreFault, StoreResult};
use crate::keys;
use crate::maintain::line::{EXPORT_VERSION, Line};
use crate::rows::{self, Rows};
use crate::store::{Snapshot, snapshot};
use crate::work::{StoredStream, decode_counters};

/// Totals of one [`EmbeddedStore::export`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Lines written, with the header and the end marker.
    pub lines: u64,
    /// Tasks among them, live and finished.
    pub tasks: u64,
}

impl EmbeddedStore {
    /// Writes one snapshot of the store as JSON lines: queues, tasks, unique keys, documents and journal
    /// streams. Workers are left out, as they register with their next heartbeat.
    ///
    /// The store stays in use meanwhile. Blocking: in async code, call it from `spawn_blocking`.
    pub fn export(&self, mut out: impl Write) -> Result<Exported, StoreError> {
        let written_at = self.clock.now();
        let database = self.database()?;
        let mut exporter = Exporter { out: &mut out, exported: Exported::default(), failed: None };
        snapshot(&database, |table| exporter.all(table, written_at)).map_err(StoreFault::into_error)?;
        let Exporter { exported, failed, .. } = exporter;
        match failed.map_or_else(|| out.flush(), Err) {
            Ok(()) => Ok(exported),
            Err(source) => Err(StoreError::Io { path: "the export".to_owned(), source }),
        }
    }
}

struct Exporter<'a, W: Write> {
    out: &'a mut W,
    exported: Exported,
    failed: Option<std::io::Error>,
}

impl<W: Write> Exporter<'_, W> {
    fn write(&mut self, line: &Line) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut *self.out, line).map_err(std::io::Error::from);
        match written.and_then(|()| self.out.write_all(b"\n")) {
            Ok(()) => self.exported.lines += 1,
            Err(error) => self.failed = Some(error),
        }
    }

    fn all(&mut self, table: &Snapshot, written_at: Timestamp) -> StoreResult<()> {
        let counters = rows::read(table, &keys::meta("counters"), decode_counters)?.unwrap_or_default();
        let in_time_order = counters.in_time_order;
        self.write(&Line::WeaverExport { version: EXPORT_VERSION, written_at, in_time_order });
        self.namespaces(table)?;
        self.write(&Line::End { lines: self.exported.lines });
        Ok(())
    }

    fn namespaces(&mut self, table: &Snapshot) -> StoreResult<()> {
        for row in rows::scan_all(table, &[keys::NAMESPACE])? {
            let (key, _) = row?;
            let text = std::str::from_utf8(&key.value()[1..]).ok();
            let name = text.and_then(|text| Namespace::try_from(text).ok());
            let name = name.ok_or_else(|| StoreFault::damaged(key.value(), "its name is invalid"))?;
            let number = rows::namespace_number(table, &name)?.unwrap_or_default();
            self.queues(table, &name, number)?;
            self.tasks(table, &name, number)?;
            self.unique_keys(table, &name, number)?;
            self.documents(table, &name, number)?;
            self.streams(table, &name, number)?;
        }
        Ok(())
    }

    fn queues(&mut self, table: &Snapshot, namespace: &Namespace, number: u32) -> StoreResult<()> {
        for row in rows::scan_all(table, &keys::of_namespace(keys::QUEUE, number))? {
            let (key, value) = row?;
            let stored = decode_queue(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
            let name = keys::split_named(key.value()).and_then(|(_, name)| QueueName::try_from(name).ok());
            let Some(name) = name.filter(|_| stored.version.0 > 0) else { continue };
            let (settings, version) = (stored.settings, stored.version);
            self.write(&Line::Queue { namespace: namespace.clone(), name, settings, version });
        }
        Ok(())
    }

    fn tasks(&mut self, table: &Snapshot, namespace: &Namespace, number: u32) -> StoreResult<()> {
        for row in rows::scan_all(table, &keys::of_namespace(keys::SPEC, number))? {
            let (key, _) = row?;
            let Some(id) = keys::id_of(key.value()) else { continue };
            if let Some(record) = rows::read_task(table, namespace, number, id)? {
                self.exported.tasks += 1;
                self.write(&Line::Task(Box::new(record)));
            }
        }
        Ok(())
    }

    fn unique_keys(&mut self, table: &Snapshot, namespace: &Namespace, number: u32) -> StoreResult<()> {
        for row in rows::scan_all(table, &keys::of_namespace(keys::UNIQUE, number))? {
            let (key, value) = row?;
            let stored = decode_unique_key(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
            let unique = keys::split_unique(key.value());
            let unique = unique.ok_or_else(|| StoreFault::damaged(key.value(), "its key is malformed"))?;
            let (task, until) = (stored.task, stored.until);
            self.write(&Line::Unique { namespace: namespace.clone(), key: unique.into(), task, until });
        }
        Ok(())
    }

    fn documents(&mut self, table: &Snapshot, namespace: &Namespace, number: u32) -> StoreResult<()> {
        for row in rows::scan_all(table, &keys::of_namespace(keys::DOCUMENT, number))? {
            let (key, value) = row?;
            let stored = decode_document(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
            let split = keys::split_document(key.value());
            let (kind, id) = split.ok_or_else(|| StoreFault::damaged(key.value(), "its key is malformed"))?;
            self.write(&Line::Document {
                namespace: namespace.clone(),
                kind: kind.to_owned(),
                id: id.to_owned(),
                version: stored.version,
                due: stored.due,
                updated_at: stored.updated_at,
                body: stored.body.unwrap_or_default(),
            });
        }
        Ok(())
    }

    fn streams(&mut self, table: &Snapshot, namespace: &Namespace, number: u32) -> StoreResult<()> {
        for row in rows::scan_all(table, &keys::of_namespace(keys::STREAM, number))? {
            let (key, value) = row?;
            let stored =
                StoredStream::decode(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
            let Some((_, name)) = keys::split_named(key.value()) else { continue };
            let (namespace, name) = (namespace.clone(), name.to_owned());
            self.write(&Line::Stream { namespace: namespace.clone(), name: name.clone(), last: stored.last });
            self.entries(table, &namespace, &name, stored.number)?;
        }
        Ok(())
    }

    fn entries(
        &mut self,
        table: &impl Rows,
        namespace: &Namespace,
        stream: &str,
        number: u64,
    ) -> StoreResult<()> {
        let prefix = &keys::entry(number, 0)[..9];
        for row in rows::scan_all(table, prefix)? {
            let (key, value) = row?;
            let stored = decode_entry(rows::body_of(key.value(), value.value())?).of_row(key.value())?;
            let seq = keys::id_of(key.value()).map_or(0, |seq| seq.0);
            let (namespace, stream) = (namespace.clone(), stream.to_owned());
            self.write(&Line::Entry { namespace, stream, seq, at: stored.at, body: stored.body });
        }
        Ok(())
    }
}
