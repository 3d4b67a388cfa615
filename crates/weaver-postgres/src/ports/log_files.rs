//! Logs that have left the database for files (seed 004, section 5). The stream's row keeps `log_ref`, and up
//! to which entry the file counts: an entry is read from the file up to there and from the table after it, so
//! that a crash at any moment neither loses nor doubles one.

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
use crate::error::{Outcome, Trouble, reason};
use crate::sql::{Statement, Wording};
use crate::types::{At, micros};

/// How many streams are moved in one go.
const STREAMS_MAX: i64 = 50;

/// The statements of this file.
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
    pub(crate) fn new(wording: Wording<'_>) -> Self {
        let statement = |text: &str| Statement::new(wording, text);
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

/// Where a stream's older entries are.
#[derive(Debug)]
pub(super) struct Reference {
    path: PathBuf,
    /// Up to this entry.
    pub(super) seq: u64,
}

impl PostgresStore {
    /// Moves bodies of logs past their time to files; what fails is done next time.
    pub(crate) async fn move_old_logs(&self) {
        let Some(directory) = self.options.log_directory.clone() else { return };
        if let Err(trouble) = self.move_some(&directory).await {
            let reason = match trouble {
                Trouble::Database(error) => reason(&error),
                Trouble::Refused(error) => error.to_string(),
            };
            tracing::warn!(reason, "old logs stay in the database for now");
        }
    }

    async fn move_some(&self, directory: &Path) -> Outcome<()> {
        let old = self.logs.old.query().bind(micros(self.options.log_retention)).bind(STREAMS_MAX);
        for row in old.fetch_all(&self.connections).await? {
            let (namespace, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            self.move_stream(directory, &namespace, &name, row.try_get(2)?).await?;
        }
        Ok(())
    }

    async fn move_stream(&self, directory: &Path, namespace: &str, name: &str, before: At) -> Outcome<()> {
        let mut transaction = self.connections.begin().await?;
        let lock = self.logs.lock.query().bind(namespace).bind(name);
        // Somebody else moves it, or it was purged.
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
            .map_err(|error| trouble(&path, &error))?;
        let point = self.logs.point.query().bind(namespace).bind(name);
        point.bind(path.to_string_lossy().as_ref()).bind(last as i64).execute(&mut *transaction).await?;
        let delete = self.logs.delete.query().bind(namespace).bind(name).bind(last as i64);
        delete.execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Where the older entries of a stream are, if they have left.
    pub(super) async fn moved(&self, stream: &StreamKey) -> Outcome<Option<Reference>> {
        let found = self.logs.reference.query().bind(stream.namespace.as_str()).bind(&stream.name);
        found.fetch_optional(&self.connections).await?.map_or(Ok(None), |row| Ok(reference(&row)?))
    }

    /// The entries of a stream that have left, oldest first.
    pub(super) async fn read_moved(&self, reference: Reference) -> Outcome<Vec<Entry>> {
        let path = reference.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&reference.path, reference.seq)).await;
        read.map_err(io::Error::other).and_then(|read| read).map_err(|error| trouble(&path, &error))
    }
}

/// Removes the files of purged runs. A file that stays harms nobody.
pub(super) fn remove(files: &[String]) {
    for file in files {
        if let Err(error) = fs::remove_file(file) {
            tracing::debug!(file, %error, "the log of a purged task stays");
        }
    }
}

fn reference(row: &sqlx::postgres::PgRow) -> Result<Option<Reference>, sqlx::Error> {
    let (path, seq): (Option<String>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(path.zip(seq).map(|(path, seq)| Reference { path: path.into(), seq: seq.unsigned_abs() }))
}

fn trouble(path: &Path, error: &io::Error) -> Trouble {
    Trouble::Refused(Error::Damaged {
        what: format!("the log file {} ({error})", path.display()),
        way_out: "make `log_directory` reachable from this node, or restore the file from a backup"
            .to_owned(),
    })
}

/// One file per stream; names keep what every file system takes.
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

/// Writes what the file had and what is new, whole or not at all.
fn write(path: &Path, before: Option<&Reference>, lines: &[Line]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    // What tasks print is for the owner's eyes, as the database is.
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
