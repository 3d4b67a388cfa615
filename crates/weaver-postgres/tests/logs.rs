//! Logs older than their retention in the database are moved to files and read as before.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use support::Schema;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::{TaskId, TaskKey};
use weaver_core::name::Namespace;
use weaver_core::ports::{Journal, ReadFrom, Seq, StreamKey};
use weaver_core::queue::Queue;
use weaver_postgres::{PostgresOptions, PostgresStore};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Harness {
    schema: Schema,
    store: PostgresStore,
    clock: ManualClock,
    directory: PathBuf,
}

impl Harness {
    async fn new(name: &str) -> Self {
        Self::with(name, "").await
    }

    /// `parameters` are appended to the URL, as an operator writes them.
    async fn with(name: &str, parameters: &str) -> Self {
        Self::moving(name, parameters, true).await
    }

    /// By default logs are not moved.
    async fn moving(name: &str, parameters: &str, is_moving: bool) -> Self {
        let schema = Schema::new();
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{name}-{}", std::process::id()));
        let url = format!("{}{parameters}", schema.url());
        let mut options = PostgresOptions::parse(&url).expect("the URL can be read");
        options.log_directory = is_moving.then(|| directory.clone());
        let clock = ManualClock::default();
        let store =
            PostgresStore::open(options, Arc::new(clock.clone())).await.expect("the schema can be made");
        schema.stop_clock(store.pool(), clock.now()).await;
        Self { schema, store, clock, directory }
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        let set = format!("UPDATE weaver.test_clock SET at = '{}'", self.clock.now());
        sqlx::query(self.schema.sql(&set)).execute(self.store.pool()).await.expect("the clock can be moved");
        // `overdue` runs maintenance as well.
        self.store.overdue(1).await.expect("the store answers");
    }

    async fn append(&self, stream: &StreamKey, texts: &[&'static str]) {
        let bodies: Vec<Bytes> = texts.iter().map(|text| Bytes::from_static(text.as_bytes())).collect();
        self.store.append_entries(stream, &bodies).await.expect("the entries are valid");
    }

    async fn read(&self, stream: &StreamKey, from: ReadFrom) -> Vec<(u64, String)> {
        let page = self.store.read_entries(stream, from, 100).await.expect("the log reads");
        let text = |body: &Bytes| String::from_utf8_lossy(body).into_owned();
        page.entries.iter().map(|entry| (entry.seq.0, text(&entry.body))).collect()
    }

    async fn number(&self, text: &str) -> i64 {
        sqlx::query_scalar(self.schema.sql(text))
            .fetch_one(self.store.pool())
            .await
            .expect("it can be counted")
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Task output is confidential: only the owner may read it.
fn assert_private(directory: &Path) {
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(directory).expect("it is there").mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            assert_private(&path);
        } else {
            assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o600, "{}", path.display());
        }
    }
}

fn log() -> StreamKey {
    StreamKey::attempt_log(&TaskKey::new(Namespace::default(), TaskId(7)), 1)
}

fn numbered(texts: &[&str]) -> Vec<(u64, String)> {
    (1..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
}

#[tokio::test]
async fn an_old_log_is_moved_to_a_file_and_reads_as_before() {
    let harness = Harness::new("move").await;
    harness.append(&log(), &["one", "two\n", "\u{0}three"]).await;
    harness.advance(6 * DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 3, "it is not old enough");
    harness.append(&log(), &["four"]).await;
    harness.advance(2 * DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 1, "the new entry stays");
    assert_eq!(harness.number("SELECT count(log_ref) FROM weaver.streams").await, 1, "the reference stays");
    assert_private(&harness.directory);
    let all = numbered(&["one", "two\n", "\u{0}three", "four"]);
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, all);
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(2))).await, all[2..]);
    assert_eq!(harness.read(&log(), ReadFrom::Last(2)).await, all[2..]);
    assert_eq!(harness.read(&log(), ReadFrom::Last(1)).await, all[3..]);
    // The rest is appended to the same file.
    harness.advance(8 * DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 0);
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, all);
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn log_retention_days_db_in_the_url_sets_when_a_log_leaves_the_database() {
    let harness = Harness::with("days", "&log_retention_days_db=2").await;
    harness.append(&log(), &["one"]).await;
    harness.advance(DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 1, "it is not old enough");
    harness.advance(2 * DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 0, "two days are over");
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, numbered(&["one"]));
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn without_a_directory_for_logs_an_old_log_stays_in_the_database() {
    let harness = Harness::moving("default", "", false).await;
    harness.append(&log(), &["one"]).await;
    harness.advance(30 * DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 1, "no log is lost");
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, numbered(&["one"]));
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_crash_between_the_file_and_the_table_loses_and_duplicates_nothing() {
    let harness = Harness::new("crash").await;
    harness.append(&log(), &["one", "two"]).await;
    let everything = harness.schema.sql("CREATE TABLE weaver.kept AS SELECT * FROM weaver.job_run_logs");
    sqlx::query(everything).execute(harness.store.pool()).await.expect("it can be copied");
    harness.advance(8 * DAY).await;
    // As if the process had crashed after writing the file and before committing the reference.
    let undo = "INSERT INTO weaver.job_run_logs SELECT * FROM weaver.kept; \
                UPDATE weaver.streams SET log_ref = NULL, log_ref_seq = NULL";
    sqlx::raw_sql(harness.schema.sql(undo)).execute(harness.store.pool()).await.expect("it can be undone");
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, numbered(&["one", "two"]));
    harness.advance(DAY).await;
    assert_eq!(harness.number("SELECT count(*) FROM weaver.job_run_logs").await, 0, "it is moved again");
    assert_eq!(harness.read(&log(), ReadFrom::After(Seq(0))).await, numbered(&["one", "two"]));
    harness.schema.drop(harness.store.pool()).await;
}
