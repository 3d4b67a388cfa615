//! The four stores, new for each test, and opened once more per node where several processes can share it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_dynamodb::{Connection, DynamoOptions, DynamoStore, ensure_tables};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_testkit::services::{dynamodb, postgres};

/// The store that a test runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Embedded,
    Postgres,
    DynamoDb,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Embedded, Self::Postgres, Self::DynamoDb];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Postgres => "postgres",
            Self::DynamoDb => "dynamodb",
        }
    }
}

/// A new database, and how to open it again.
pub(crate) enum Fresh {
    /// One process only: its nodes share the store.
    Shared(Arc<dyn Store>, #[allow(dead_code, reason = "kept for its drop")] Option<Scratch>),
    /// A schema of its own.
    Postgres(String, #[allow(dead_code, reason = "kept while it is used")] postgres::Shared),
    /// A database of its own: DynamoDB Local keeps one per access key.
    DynamoDb(Connection),
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Fresh {
    pub(crate) fn new(place: Place, clock: &ManualClock) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let clock: Arc<dyn Clock> = Arc::new(clock.clone());
        match place {
            Place::Memory => Self::Shared(Arc::new(InMemoryQueue::new(clock)), None),
            Place::Embedded => {
                let scratch = Scratch::new(number);
                let path = scratch.0.join("store");
                let open =
                    EmbeddedStore::open_with(path, clock, EmbeddedOptions::default(), Arc::new(|_| {}));
                Self::Shared(Arc::new(open.expect("an empty directory opens")), Some(scratch))
            }
            Place::Postgres => {
                let server = postgres::Shared::server();
                let url = format!(
                    "{}?schema=sched_{}_{number}",
                    server.url(),
                    weaver_testkit::services::process_key()
                );
                Self::Postgres(url, server)
            }
            Place::DynamoDb => {
                let mut key = [0; 12];
                getrandom::fill(&mut key).expect("there are random bytes");
                let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
                Self::DynamoDb(Connection {
                    endpoint: dynamodb::endpoint(),
                    region: "us-east-1".to_owned(),
                    allow_aws: false,
                    credentials: Some((key, "secret".to_owned(), None)),
                    request_timeout: std::time::Duration::from_secs(30),
                })
            }
        }
    }

    /// Opens the store as one more node.
    pub(crate) async fn open(&self, clock: &ManualClock) -> Arc<dyn Store> {
        let clock: Arc<dyn Clock> = Arc::new(clock.clone());
        match self {
            Self::Shared(store, _) => Arc::clone(store),
            Self::Postgres(url, _) => {
                let options = PostgresOptions::parse(url).expect("the URL of the test server can be read");
                let open = PostgresStore::open(options, clock).await;
                Arc::new(open.unwrap_or_else(|error| panic!("{error}")))
            }
            Self::DynamoDb(database) => {
                let db = database.open().expect("the endpoint is local");
                ensure_tables(&db, &database.endpoint).await.expect("the tables can be made");
                Arc::new(DynamoStore::new(Arc::new(db), clock, DynamoOptions::default()))
            }
        }
    }
}

/// A directory that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    fn new(number: u64) -> Self {
        let name = format!("scheduler-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that is left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
