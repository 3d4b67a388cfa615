//! A schema of every released version, with live leases in it, is upgraded by this binary.
//!
//! `fixtures/schema-N.txt` is such a schema as SQL: what the migrations made, and the rows of a store in use.
//! A change of the schema without a migration step makes the upgraded schema differ from a new one. Until
//! version 1 is released, and afterwards for a new version, the fixture of the current version is written by
//! `WEAVER_UPDATE_SCHEMA_FIXTURE=1 cargo nextest run -p weaver-postgres --test upgrade`; older ones never
//! change.

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use support::Schema;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::outcome::Retry;
use weaver_core::ports::{
    Admin, DocumentKey, Documents, Expect, Journal, QueueSettings, ReadFrom, Scope, Seq, StreamKey, Tasks,
};
use weaver_core::prelude::*;
use weaver_core::queue::{Committed, EnqueueAudit};
use weaver_postgres::{PostgresStore, SCHEMA_VERSION, guard_triggers, migrations};
use weaver_runtime::SystemClock;

const UPDATE: &str = "WEAVER_UPDATE_SCHEMA_FIXTURE";

fn path(version: i32) -> String {
    format!("{}/tests/fixtures/schema-{version}.txt", env!("CARGO_MANIFEST_DIR"))
}

/// The tables whose rows a fixture has. Moves and the snapshot of the counts name transactions of their
/// server.
const TABLES: [&str; 15] = [
    "tasks",
    "ready",
    "leases",
    "ended",
    "progress",
    "task_labels",
    "closed_attempts",
    "idempotency_keys",
    "schedule_keys",
    "run_counts",
    "queues",
    "documents",
    "streams",
    "audit",
    "pending_audit",
];

async fn open(schema: &Schema) -> PostgresStore {
    PostgresStore::open(schema.options(), Arc::new(SystemClock::new())).await.expect("the schema can be made")
}

static NEXT_TOKEN: AtomicU64 = AtomicU64::new(1);

async fn lease(store: &PostgresStore, queue: &'static str, max: u32) -> Vec<Leased> {
    let token = LeaseToken(NEXT_TOKEN.fetch_add(1, Ordering::Relaxed).into());
    let (worker, queue) = (WorkerId::new("w").expect("a name"), QueueName::new(queue).expect("a name"));
    let request = LeaseRequest::new(Namespace::default(), queue, worker, token);
    store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("the store answers")
}

async fn end(store: &PostgresStore, record: &TaskRecord, outcome: Outcome) -> Committed {
    let lease = record.current_lease().expect("it is leased");
    let end =
        decide(record, Command::Finish { lease, outcome }, record.updated_at).expect("it holds the lease");
    store.commit(vec![end], None).await.expect("the store answers").remove(0)
}

/// Tasks in every place: 2 of one lease and 1 with a serial key are running, 1 was cancelled while it ran, 2
/// have ended, 2 wait, 1 waits for its retry.
async fn fill(store: &PostgresStore) {
    let audit = EnqueueAudit { before: "ada ".to_owned(), after: String::new() };
    store.enqueue_audited(vec![NewTask::new("t"); 6], audit).await.expect("the store answers");
    let leased = lease(store, "default", 5).await;
    let failed = Outcome::Failed { error: "once".into(), retry: Retry::After(std::time::Duration::ZERO) };
    let _ = end(store, &leased[0].record, Outcome::DONE).await;
    let _ = end(store, &leased[1].record, failed).await;
    store.cancel(&leased[2].lease.key).await.expect("it runs");
    let keyed = || NewTask::new("t").queue("keyed").serial_key("k").label("a", "b").idempotency_key("once");
    store
        .enqueue_batch(vec![keyed(), NewTask::new("t").queue("keyed").serial_key("k")])
        .await
        .expect("it answers");
    lease(store, "keyed", 1).await;
    let fatal =
        store.enqueue_batch(vec![NewTask::new("t").queue("dead").max_attempts(1)]).await.expect("it answers");
    assert!(fatal[0].is_ok());
    let dead = lease(store, "dead", 1).await;
    let _ = end(store, &dead[0].record, Outcome::failed("at once")).await;
    let settings = QueueSettings { paused: false, max_running: Some(9), ..QueueSettings::default() };
    let (namespace, queue) = (Namespace::default(), QueueName::new("limited").expect("a name"));
    store.put_queue(&namespace, &queue, settings, Expect::Anything).await.expect("the store answers");
    let key = DocumentKey::new(namespace, "note", "n");
    store.put_document(&key, "{}".into(), Expect::Anything, None).await.expect("the store answers");
}

async fn text(connection: &mut PgConnection, query: AssertSqlSafe<String>) -> Vec<String> {
    sqlx::query_scalar(query).fetch_all(connection).await.expect("the catalogue answers")
}

/// The schema and its rows as SQL, with the schema's name `weaver`.
async fn written(schema: &Schema) -> String {
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let rolled = sqlx::query(schema.sql("SELECT weaver.roll_up_counts()"));
    rolled.execute(&mut connection).await.expect("it answers");
    let mut out = String::from(
        "CREATE TABLE weaver.migrations (version integer PRIMARY KEY, name text NOT NULL, \
        applied_at timestamptz NOT NULL DEFAULT now());\n",
    );
    for step in migrations("weaver") {
        let _ = writeln!(
            out,
            "{}\nINSERT INTO weaver.migrations VALUES ({}, '{}');",
            step.sql, step.version, step.name
        );
    }
    for table in TABLES {
        let _ = writeln!(out, "ALTER TABLE weaver.{table} DISABLE TRIGGER USER;");
        let query = format!("SELECT to_jsonb(t)::text FROM weaver.{table} t ORDER BY 1");
        for row in text(&mut connection, schema.sql(&query)).await {
            let row = row.replace('\'', "''");
            let from = format!("jsonb_populate_record(NULL::weaver.{table}, '{row}')");
            let _ = writeln!(out, "INSERT INTO weaver.{table} SELECT * FROM {from};");
        }
    }
    for sequence in ["job_run_ids", "lease_ids", "document_versions", "pending_audit_places"] {
        let _ = writeln!(out, "SELECT setval('weaver.{sequence}', 1000);");
    }
    out += "UPDATE weaver.run_counts_as_of SET snapshot = pg_current_snapshot();\n";
    for trigger in guard_triggers("weaver") {
        let _ = writeln!(out, "{};", trigger.enable);
    }
    out
}

/// A schema made from the fixture of a version.
async fn restored(version: i32) -> Schema {
    // Beyond those in the fixture: a repeated lease call returns what it was granted.
    NEXT_TOKEN.fetch_max(1000, Ordering::Relaxed);
    let schema = Schema::new();
    let fixture = std::fs::read_to_string(path(version)).expect("the fixture is in the repository");
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let text = format!("CREATE SCHEMA {};\n{fixture}", schema.name);
    sqlx::raw_sql(schema.sql(&text)).execute(&mut connection).await.expect("the fixture is right");
    schema
}

/// Every object of the schema, as the server describes it.
const CATALOGUE: &str = "
SELECT concat_ws(' ', 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.attstorage,
    a.attcompression, a.attgenerated, o.collname, pg_get_expr(d.adbin, d.adrelid))
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum)
    = (c.oid, a.attnum)
LEFT JOIN pg_collation o ON o.oid = a.attcollation
WHERE c.relnamespace = $1::text::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN
    ('r', 'c')
UNION ALL SELECT concat_ws(' ', 'relation', relname, relkind, array_to_string(reloptions, ','),
    CASE relkind WHEN 'v' THEN pg_get_viewdef(oid) WHEN 'i' THEN pg_get_indexdef(oid) END)
FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind <> 't'
UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE connamespace = $1::text::regnamespace
UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND
    prokind IN ('f', 'p')
UNION ALL SELECT concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid))
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = $1::text::regnamespace AND
    NOT t.tgisinternal";

async fn catalogue(schema: &Schema) -> BTreeSet<String> {
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let found = sqlx::query_scalar(CATALOGUE).bind(&schema.name).fetch_all(&mut connection);
    let lines: Vec<String> = found.await.expect("the catalogue answers");
    lines.iter().map(|line| line.replace(&format!("{}.", schema.name), "weaver.")).collect()
}

#[tokio::test]
async fn every_schema_version_is_upgraded_to_what_a_new_installation_has() {
    let fresh = Schema::new();
    let store = open(&fresh).await;
    if std::env::var(UPDATE).as_deref() == Ok("1") {
        fill(&store).await;
        std::fs::write(path(SCHEMA_VERSION), written(&fresh).await).expect("the fixture can be written");
    }
    let expected = catalogue(&fresh).await;
    assert!(expected.len() > 300, "{}", expected.len());
    for version in 1..=SCHEMA_VERSION {
        let schema = restored(version).await;
        let upgraded = open(&schema).await;
        let found = catalogue(&schema).await;
        let missing: Vec<_> = expected.difference(&found).collect();
        let other: Vec<_> = found.difference(&expected).collect();
        assert!(
            missing.is_empty() && other.is_empty(),
            "schema version {version} is not upgraded to the current one: add a migration step for the \
            change (before \
             the first release: write the fixture with `{UPDATE}=1`, see this file).\nmissing: \
             {missing:#?}\nnot in a \
             new schema: {other:#?}"
        );
        schema.drop(upgraded.pool()).await;
    }
    fresh.drop(store.pool()).await;
}

#[tokio::test]
async fn the_leases_of_an_upgraded_schema_end_normally() {
    for version in 1..=SCHEMA_VERSION {
        let schema = restored(version).await;
        let store = open(&schema).await;
        let all: Vec<TaskKey> = (1..=9).map(|id| TaskKey::new(Namespace::default(), TaskId(id))).collect();
        let before: Vec<TaskRecord> = store
            .get_tasks(&all)
            .await
            .expect("it answers")
            .into_iter()
            .map(|found| found.expect("it is there"))
            .collect();
        let states: Vec<_> = before.iter().map(|record| record.state).collect();
        use TaskState::{Cancelled, Dead, Queued, RetryScheduled, Running, Succeeded};
        let expected =
            [Succeeded, RetryScheduled, Cancelled, Running, Running, Queued, Running, Queued, Dead];
        assert_eq!(states, expected, "version {version}");
        for record in before.iter().filter(|record| record.state == Running) {
            let ended = end(&store, record, Outcome::DONE).await;
            assert!(matches!(ended, Committed::Applied { .. }), "version {version}: {ended:?} of {record:?}");
        }
        // As it was before it was cancelled: the lease that its handler has.
        let (state, version_before) = (Running, Version(before[2].version.0 - 1));
        let running = TaskRecord { state, version: version_before, ..before[2].clone() };
        let hold = running.current_lease().expect("its handler may still run");
        let renewal = vec![Renewal::of(hold.clone())];
        assert_eq!(
            store.renew(renewal).await.expect("it answers"),
            [Renewed::Cancelled],
            "version {version}"
        );
        store.confirm_stopped(vec![hold]).await.expect("it answers");
        for (queue, waiting) in [("default", 2), ("keyed", 1)] {
            let leased = lease(&store, queue, 9).await;
            assert_eq!(leased.len(), waiting, "version {version}: the waiting tasks of {queue}");
            for leased in leased {
                assert!(matches!(
                    end(&store, &leased.record, Outcome::DONE).await,
                    Committed::Applied { .. }
                ));
            }
        }
        let counts = store.counts(Scope::Namespace(Namespace::default())).await.expect("it answers").values;
        assert_eq!((counts.get(Succeeded), counts.total()), (7, 9), "version {version}");
        let stream = StreamKey::audit(Namespace::default());
        let audit = store.read_entries(&stream, ReadFrom::After(Seq(0)), 9).await.expect("it answers");
        assert_eq!(audit.entries.len(), 1, "version {version}");
        let report = store.check(&|_| true, &|_, _| Ok(())).await.expect("it answers");
        assert!(report.is_clean(), "version {version}: {report:?}");
        schema.drop(store.pool()).await;
    }
}
