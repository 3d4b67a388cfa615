//! One schema per test on a shared server, with a clock that stands still until the test advances it.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod bridge;
pub(crate) mod proxy;
pub(crate) mod schema_owner;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Executor};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::id::TaskKey;
use weaver_core::ports::Store;
use weaver_core::queue::QueueExt;
use weaver_core::time::Timestamp;
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_runtime::{LocalSource, WorkSource};
use weaver_testkit::harness::{CorruptedRecord, Corruption, TestStore};
use weaver_testkit::services::pooler::Pooler;
use weaver_testkit::services::postgres::Shared;

/// If set, the stores of the conformance suite connect through a pooler in transaction mode.
const POOLER_VARIABLE: &str = "WEAVER_TEST_POSTGRES_POOLER";

/// The schema of one test.
pub(crate) struct Schema {
    pub(crate) name: String,
    server: Shared,
}

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            name: format!("test_{}_{number}", weaver_testkit::services::process_key()),
            server: Shared::server(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}", self.server.url(), self.name)
    }

    /// The server, without a schema.
    pub(crate) fn server_url(&self) -> &str {
        self.server.url()
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions::parse(&self.url()).expect("the URL of the test server can be read")
    }

    /// The URL of the schema through a pooler in transaction mode; LISTEN connects directly.
    pub(crate) fn url_through(&self, pooler: &Pooler) -> String {
        let direct = self.server_url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
        format!("{}?schema={}&pooler=transaction&listen_url={direct}", pooler.url(), self.name)
    }

    /// The statement with the schema's name in it.
    pub(crate) fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("weaver.", &format!("{}.", self.name)))
    }

    /// Drops it; a schema that is left behind only fills the server.
    pub(crate) async fn drop(&self, pool: &PgPool) {
        let _ = pool.execute(AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.name))).await;
    }

    /// Replaces the clock of the schema by one that the test sets.
    pub(crate) async fn stop_clock(&self, pool: &PgPool, at: Timestamp) {
        let text = format!(
            "CREATE TABLE weaver.test_clock (at timestamptz NOT NULL);
             INSERT INTO weaver.test_clock VALUES ('{at}');
             CREATE OR REPLACE FUNCTION weaver.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
             AS 'SELECT at FROM weaver.test_clock'"
        );
        sqlx::raw_sql(self.sql(&text)).execute(pool).await.expect("the clock can be replaced");
    }
}

/// A new store on the shared server whose time moves only by `advance`.
pub(crate) async fn fresh() -> Box<dyn TestStore> {
    Box::new(on_server().await)
}

/// The same, for tests that also look into the tables.
pub(crate) async fn on_server() -> OnServer {
    let schema = Schema::new();
    let clock = ManualClock::default();
    let pooler = std::env::var_os(POOLER_VARIABLE).map(|_| Pooler::in_front_of(schema.server_url(), 10));
    let url = pooler.as_ref().map_or_else(|| schema.url(), |pooler| schema.url_through(pooler));
    let options = PostgresOptions::parse(&url).expect("the URL of the test server can be read");
    let open = PostgresStore::open(options, Arc::new(clock.clone())).await;
    let store = open.unwrap_or_else(|error| panic!("{error}"));
    let direct = match pooler {
        None => store.pool().clone(),
        Some(_) => PgPool::connect_lazy(schema.server_url()).expect("the URL can be read"),
    };
    schema.stop_clock(&direct, clock.now()).await;
    let start = clock.now();
    let store = Arc::new(store);
    OnServer { store, clock, start, elapsed: Mutex::default(), schema, direct, _pooler: pooler }
}

pub(crate) struct OnServer {
    pub(crate) store: Arc<PostgresStore>,
    clock: ManualClock,
    start: Timestamp,
    /// In nanoseconds, as the clock's: two halves of a microsecond add up to one.
    elapsed: Mutex<Duration>,
    pub(crate) schema: Schema,
    /// A direct connection, to advance the server's clock.
    pub(crate) direct: PgPool,
    _pooler: Option<Pooler>,
}

impl OnServer {
    /// The number that a query selects.
    pub(crate) async fn count(&self, text: &str) -> i64 {
        let query = sqlx::query_scalar(self.schema.sql(text));
        query.fetch_one(&self.direct).await.expect("the server answers")
    }

    /// Ends what is left of these tasks, and has maintenance run after every lease has expired.
    pub(crate) async fn finish(&self, keys: &[TaskKey]) {
        for key in keys {
            // It may have ended, or have been removed.
            drop(self.store.cancel(key).await);
        }
        self.advance(Duration::from_secs(3600)).await;
        let source = LocalSource::new(self.store.clone());
        for _ in 0..2 {
            source.maintain(Default::default()).await.expect("the store answers");
            self.advance(Duration::from_secs(60)).await;
        }
    }

    /// The tasks that are in two places, or in one without a spec.
    pub(crate) async fn misplaced(&self) -> i64 {
        self.count("SELECT count(*) FROM weaver.misplaced(10)").await
    }

    /// The lease rows of any kind.
    pub(crate) async fn lease_rows(&self) -> i64 {
        self.count("SELECT count(*) FROM weaver.leases").await
    }
}

#[async_trait]
impl TestStore for OnServer {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        let at = {
            let mut elapsed = self.elapsed.lock().expect("no thread panics while holding it");
            *elapsed += by;
            self.start.saturating_add(*elapsed)
        };
        let text = format!("UPDATE weaver.test_clock SET at = '{at}'");
        sqlx::query(self.schema.sql(&text)).execute(&self.direct).await.expect("the clock can be moved");
        // After the server's clock: a waiter that this wakes finds the time it waited for.
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn corrupt(&self, record: &CorruptedRecord, how: Corruption) -> bool {
        let text = match (record, how) {
            (CorruptedRecord::Task(key), Corruption::Undecodable) => undecodable(key),
            (CorruptedRecord::Task(key), Corruption::UnknownFormat) => unknown_format(key),
            (CorruptedRecord::QueueSettings(namespace, queue), Corruption::Undecodable) => format!(
                "UPDATE weaver.queues SET max_running = -1 WHERE namespace = '{namespace}' AND queue = '{queue}'"
            ),
            (CorruptedRecord::Runner(key), Corruption::Undecodable) => format!(
                "UPDATE weaver.runners SET queues = '{{\"\"}}' WHERE namespace = '{}' AND runner_id = '{}'",
                key.namespace, key.runner_id
            ),
            // These columns have no format; a document's body is any bytes.
            _ => return false,
        };
        let text = past_guards(&text);
        sqlx::raw_sql(self.schema.sql(&text)).execute(&self.direct).await.expect("the owner may");
        true
    }
}

/// The statements with the guards disabled: what another program or a broken disk may leave behind.
pub(crate) fn past_guards(statements: &str) -> String {
    let guards = |verb: &str| {
        let tables = ["tasks", "ready", "leases", "ended", "closed_attempts"];
        tables.map(|table| format!("ALTER TABLE weaver.{table} {verb} TRIGGER USER")).join("; ")
    };
    format!("{}; {statements}; {}", guards("DISABLE"), guards("ENABLE"))
}

fn undecodable(key: &TaskKey) -> String {
    format!(
        "UPDATE weaver.tasks SET retry = '{{\"kind\": 7}}' WHERE namespace = '{}' AND id = {}",
        key.namespace, key.id
    )
}

/// As a newer Weaver would have written it: a lease has the format of its tasks.
fn unknown_format(key: &TaskKey) -> String {
    let id = key.id;
    format!(
        "SELECT weaver.split_off({id}, l.token) FROM weaver.leases l WHERE {id} = ANY (l.ids); \
         UPDATE weaver.tasks SET format = 99 WHERE id = {id}; UPDATE weaver.ready SET format = 99 WHERE id = {id}; \
         UPDATE weaver.leases SET format = 99 WHERE first_id = {id} AND NOT is_shared"
    )
}
