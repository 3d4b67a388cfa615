//! Old task logs in files (seed 004, section 5).
//!
//! The stream's row keeps `log_ref` and the last sequence number that the file is used for. Entries up to it
//! are read from the file, later ones from the table, so that a crash at any point neither loses nor
//! duplicates one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use weaver_core::error::Error;
use weaver_core::ports::{Entry, Seq, StreamKey};
use weaver_core::time::Timestamp;

use crate::PostgresStore;
use crate::error::{Result, StoreFault, reason};
use crate::sql::{Statement, StatementOptions};
use crate::types::{At, micros};

/// Streams moved per maintenance call.
const STREAMS_MAX: i64 = 50;

/// The statements that move logs.
#[derive(Debug)]
pub(crate) struct LogStatements {
    old: Statement,
    lock: Statement,
    entries: Statement,
    point: Statement,
    delete: Statement,
    reference: Statement,
}

impl LogStatements {
    pub(crate) fn new(statement_options: StatementOptions<'_>) -> Self {
        let statement = |text: &str| Statement::new(statement_options, text);
        Self {
            old: statement(
                "SELECT DISTINCT l.namespace, l.name, weaver.later(weaver.clock(), -$1::bigint) FROM weaver.job_run_logs l \
                 WHERE l.at < weaver.later(weaver.clock(), -$1::bigint) LIMIT $2",
            ),
            lock: statement(
                "SELECT log_ref, log_ref_seq FROM weaver.streams WHERE namespace = $1 AND name = $2 \
                 FOR UPDATE SKIP LOCKED",
            ),
            entries: statement(
                "SELECT seq, at, body FROM weaver.job_run_logs WHERE namespace = $1 AND name = $2 AND at < $3 \
                 ORDER BY seq",
            ),
            point: statement(
                "UPDATE weaver.streams SET log_ref = $3, log_ref_seq = $4 WHERE namespace = $1 AND name = $2",
            ),
            delete: statement(
                "DELETE FROM weaver.job_run_logs WHERE namespace = $1 AND name = $2 AND seq <= $3",
            ),
            reference: statement(
                "SELECT log_ref, log_ref_seq FROM weaver.streams WHERE namespace = $1 AND name = $2 \
                 AND log_ref IS NOT NULL",
            ),
        }
    }
}

/// An entry as a line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    seq: u64,
    at: Timestamp,
    body: String,
}

/// The file with a stream's older entries.
#[derive(Debug)]
pub(super) struct Reference {
    path: PathBuf,
    /// The last entry that is read from the file.
    pub(super) seq: u64,
}

impl PostgresStore {
    /// Moves log entries older than `log_retention` to files; failures are retried at the next call.
    pub(crate) async fn move_old_logs(&self) {
        let Some(directory) = self.options.log_directory.clone() else { return };
        if let Err(fault) = self.move_some(&directory).await {
            let reason = match fault {
                StoreFault::Database(error) => reason(&error),
                StoreFault::Refused(error) => error.to_string(),
            };
            tracing::warn!(
                reason,
                "cannot move old task logs to `log_directory`; retrying at the next interval"
            );
        }
    }

    async fn move_some(&self, directory: &Path) -> Result<()> {
        let old = self.logs.old.query().bind(micros(self.options.log_retention)).bind(STREAMS_MAX);
        for row in old.fetch_all(&self.connections).await? {
            let (namespace, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            self.move_stream(directory, &namespace, &name, row.try_get(2)?).await?;
        }
        Ok(())
    }

    async fn move_stream(&self, directory: &Path, namespace: &str, name: &str, before: At) -> Result<()> {
        let mut transaction = self.connections.begin().await?;
        let lock = self.logs.lock.query().bind(namespace).bind(name);
        // Another node is moving it, or it was purged.
        let Some(row) = lock.fetch_optional(&mut *transaction).await? else { return Ok(()) };
        let before_this = reference(&row)?;
        let entries = self.logs.entries.query().bind(namespace).bind(name).bind(before);
        let mut lines = Vec::new();
        for row in entries.fetch_all(&mut *transaction).await? {
            let seq = row.try_get::<i64, _>(0)?.unsigned_abs();
            lines.push(Line { seq, at: row.try_get::<At, _>(1)?.0, body: hex(row.try_get(2)?) });
        }
        let Some(last) = lines.last().map(|line| line.seq) else { return Ok(()) };
        let path = path_of(directory, namespace, name);
        let file = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&file, before_this.as_ref(), &lines)).await;
        written
            .map_err(io::Error::other)
            .and_then(|written| written)
            .map_err(|error| file_fault(&path, &error))?;
        let point = self.logs.point.query().bind(namespace).bind(name);
        point.bind(path.to_string_lossy().as_ref()).bind(last as i64).execute(&mut *transaction).await?;
        let delete = self.logs.delete.query().bind(namespace).bind(name).bind(last as i64);
        delete.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// The file of a stream's older entries, if there is one.
    pub(super) async fn moved(&self, stream: &StreamKey) -> Result<Option<Reference>> {
        let found = self.logs.reference.query().bind(stream.namespace.as_str()).bind(&stream.name);
        found.fetch_optional(&self.connections).await?.map_or(Ok(None), |row| Ok(reference(&row)?))
    }

    /// The entries in the file, oldest first.
    pub(super) async fn read_moved(&self, reference: Reference) -> Result<Vec<Entry>> {
        let path = reference.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&reference.path, reference.seq)).await;
        read.map_err(io::Error::other).and_then(|read| read).map_err(|error| file_fault(&path, &error))
    }
}

/// Removes the files of purged runs. A file that cannot be removed does no harm.
pub(super) fn remove(files: &[String]) {
    for file in files {
        if let Err(error) = fs::remove_file(file) {
            tracing::debug!(file, %error, "cannot remove the log file of a purged task");
        }
    }
}

fn reference(row: &sqlx::postgres::PgRow) -> Result<Option<Reference>, sqlx::Error> {
    let (path, seq): (Option<String>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(path.zip(seq).map(|(path, seq)| Reference { path: path.into(), seq: seq.unsigned_abs() }))
}

fn file_fault(path: &Path, error: &io::Error) -> StoreFault {
    StoreFault::Refused(Error::Damaged {
        what: format!("the log file {} ({error})", path.display()),
        remedy: "make `log_directory` reachable from this node, or restore the file from a backup".to_owned(),
    })
}

/// One file per stream, with a name that every file system accepts.
fn path_of(directory: &Path, namespace: &str, name: &str) -> PathBuf {
    let plain = |text: &str| -> String {
        let letter = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        };
        text.bytes().map(letter).collect()
    };
    directory.join(plain(namespace)).join(format!("{}.jsonl", plain(name)))
}

/// Writes the old and the new entries atomically.
fn write(path: &Path, before: Option<&Reference>, lines: &[Line]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    // Task output is as confidential as the database: accessible to the owner only.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let draft = path.with_extension("draft");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    if let Some(before) = before {
        for entry in read(&before.path, before.seq)? {
            let line = Line { seq: entry.seq.0, at: entry.at, body: hex(&entry.body) };
            writeln!(file, "{}", serde_json::to_string(&line)?)?;
        }
    }
    for line in lines {
        writeln!(file, "{}", serde_json::to_string(line)?)?;
    }
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(parent)?.sync_all()
}

fn read(path: &Path, until: u64) -> io::Result<Vec<Entry>> {
    let text = fs::read_to_string(path)?;
    let mut entries = Vec::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line)?;
        if line.seq <= until {
            let body = Bytes::from(unhex(&line.body).ok_or(io::ErrorKind::InvalidData)?);
            entries.push(Entry { seq: Seq(line.seq), at: line.at, body });
        }
    }
    Ok(entries)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}
