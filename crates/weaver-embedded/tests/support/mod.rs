//! A store in a temporary directory, and media that are not directories.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod contents;
pub(crate) mod faulty;
pub(crate) mod power;
pub(crate) mod ram;
pub(crate) mod rng;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redb::ReadableTable;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::time::Timestamp;
use weaver_embedded::codec::{seal, unseal};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_testkit::harness::{CorruptedRecord, Corruption, TestStore};

/// A directory that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("embedded-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A fresh store on real files, with a manual clock.
pub(crate) fn on_disk() -> Box<dyn TestStore> {
    let scratch = Scratch::new();
    let clock = ManualClock::default();
    let open = EmbeddedStore::open_with(
        scratch.path().join("store"),
        Arc::new(clock.clone()),
        EmbeddedOptions::default(),
        Arc::new(|_| {}),
    );
    let store = Mutex::new(Some(Arc::new(open.expect("an empty directory opens"))));
    Box::new(OnDisk { store, clock, scratch })
}

/// Edits a closed store directly and fixes the header's checksum, so that only the edit is left to detect.
pub(crate) fn tamper(path: &Path, act: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>)) {
    const TABLE: redb::TableDefinition<'static, &'static [u8], &'static [u8]> =
        redb::TableDefinition::new("weaver");
    let file = path.join("weaver.redb");
    let database = redb::Database::open(&file).expect("a database");
    let mut transaction = database.begin_write().expect("a transaction");
    transaction.set_two_phase_commit(true);
    act(&mut transaction.open_table(TABLE).expect("the table"));
    transaction.commit().expect("synced");
    drop(database);
    let mut bytes = std::fs::read(&file).expect("readable");
    let sum = crc32fast::hash(&bytes[..64]).to_le_bytes();
    bytes[324..328].copy_from_slice(&sum);
    std::fs::write(&file, bytes).expect("written");
}

struct OnDisk {
    // `None` while it is closed for tampering.
    store: Mutex<Option<Arc<EmbeddedStore>>>,
    clock: ManualClock,
    // After the store, which is closed before its directory is removed.
    #[allow(dead_code, reason = "kept for its drop")]
    scratch: Scratch,
}

#[async_trait]
impl TestStore for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().expect("no test panics here").clone().expect("it is open")
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn corrupt(&self, record: &CorruptedRecord, how: Corruption) -> bool {
        let store = self.store.lock().expect("no test panics here").take().expect("it is open");
        assert_eq!(Arc::strong_count(&store), 1, "nothing else holds the store");
        drop(store);
        let path = self.scratch.path().join("store");
        tamper(&path, |table| {
            let key = row_of(table, record);
            let value = table.get(key.as_slice()).expect("readable").expect("it is there").value().to_vec();
            let mut body = unseal(key[0], &key[1..], &value).expect("it was sealed").to_vec();
            match how {
                Corruption::Undecodable => body.push(7),
                Corruption::UnknownFormat => body[0] = 99,
            }
            let value = seal(key[0], &key[1..], &body);
            table.insert(key.as_slice(), value.as_slice()).expect("written");
        });
        let clock = Arc::new(self.clock.clone());
        let open = EmbeddedStore::open_with(path, clock, EmbeddedOptions::default(), Arc::new(|_| {}));
        let store = open.unwrap_or_else(|error| panic!("the rest opens: {error}"));
        *self.store.lock().expect("no test panics here") = Some(Arc::new(store));
        true
    }
}

/// The key of the row to corrupt; for a task, its status row.
pub(crate) fn row_of(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    record: &CorruptedRecord,
) -> Vec<u8> {
    let ends_with = |tags: &[u8], end: &[u8]| {
        let rows = table.iter().expect("readable").map(|row| row.expect("a row").0.value().to_vec());
        let mut found = rows.filter(|key| tags.contains(&key[0]) && key.get(5..) == Some(end));
        found.next().expect("it is stored")
    };
    match record {
        CorruptedRecord::Task(key) => ends_with(&[0x11, 0x12], &key.id.0.to_be_bytes()),
        CorruptedRecord::QueueSettings(_, queue) => ends_with(&[0x18], queue.as_str().as_bytes()),
        CorruptedRecord::Runner(key) => ends_with(&[0x40], key.runner_id.as_str().as_bytes()),
        CorruptedRecord::Document(key) => {
            let rows = table.iter().expect("readable").map(|row| row.expect("a row").0.value().to_vec());
            let mut found = rows.filter(|row| row[0] == 0x20 && row.ends_with(key.id.as_bytes()));
            found.next().expect("it is stored")
        }
    }
}
