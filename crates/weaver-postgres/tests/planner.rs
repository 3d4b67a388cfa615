//! Each index is used for the query it is for, at a million rows, and no call reads a large table in full.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::lease::Renewal;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::SerialKey;
use weaver_core::ports::{Admin, PurgeRule, Selector, TaskQuery, Tasks};
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_postgres::PostgresStore;

/// A million finished tasks, fifty thousand live ones, and a hundred thousand events and keys.
const FILL: &str = "
ALTER TABLE weaver.tasks DISABLE TRIGGER USER; ALTER TABLE weaver.ready DISABLE TRIGGER USER;
ALTER TABLE weaver.leases DISABLE TRIGGER USER; ALTER TABLE weaver.ended DISABLE TRIGGER USER;
ALTER TABLE weaver.task_labels DISABLE TRIGGER USER; ALTER TABLE weaver.closed_attempts DISABLE TRIGGER USER;
INSERT INTO weaver.tasks (id, created_at, max_attempts, max_losses, priority, namespace, queue, task_type, labels,
    payload)
SELECT i, now(), 5, 3, 5, 'default', 'q' || i % 7, 't' || i % 1000,
    CASE WHEN i % 10 = 0 THEN jsonb_build_object('k', 'v' || i % 200) END, 'null'
FROM generate_series(1, 1000000) i;
INSERT INTO weaver.ended (id, finished_at, started_at, version, attempt, state, namespace, queue, worker)
SELECT i, now() - i * interval '1 second', now(), 3, 1, CASE WHEN i % 1000 = 0 THEN 7 ELSE 6 END, 'default',
    'q' || i % 7, 'w'
FROM generate_series(1, 1000000) i;
INSERT INTO weaver.task_labels SELECT 'default', weaver.label('k', 'v' || i % 200), i
FROM generate_series(10, 1000000, 10) i;
INSERT INTO weaver.closed_attempts SELECT 'default', i, 1, 'w', 2, now(), now(), 'failed' FROM
    generate_series(10, 1000000, 10) i;
INSERT INTO weaver.tasks (id, created_at, max_attempts, max_losses, priority, namespace, queue, task_type, payload)
SELECT 2000000 + i, now(), 5, 3, i % 10, 'default', 'q' || i % 7, 't', 'null' FROM generate_series(1, 50000) i;
INSERT INTO weaver.ready (id, ready_at, expires_at, version, attempt, executions, renewals, failures, losses, max_losses,
    priority, format, state, namespace, queue, task_type, serial_key)
SELECT 2000000 + i, now() - i * interval '1 second', CASE WHEN i % 50 = 0 THEN now() + i * interval '1 second' END,
    1, 0, 0, 0, 0, 0, 3, i % 10, 1, 0, 'default', 'q' || i % 7, 't', CASE WHEN i % 10 = 0 THEN 'k' || i % 5000 END
FROM generate_series(1, 50000) i WHERE i % 100 <> 0 AND i % 101 <> 0;
INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, version, attempt, executions, renewals,
    failures, losses, format, state, is_shared, namespace, queue, worker, ids)
SELECT 2000000 + i, 2000000 + i, gen_random_uuid(), now(), now(), 1, 2, 1, 1, 0, 0, 0, 1,
    CASE WHEN i % 100 = 0 THEN 2 ELSE 4 END, i % 3 = 0, 'default', 'q' || i % 7, 'w' || i % 50, ARRAY[2000000 + i]
FROM generate_series(1, 50000) i WHERE i % 100 = 0 OR i % 101 = 0;
INSERT INTO weaver.events (namespace, kind, id, version, due_at, created_at, updated_at, body)
SELECT 'default', 'event', 'e' || i, i, CASE WHEN i % 100 = 0 THEN now() END, now() - i * interval '1 second', now(), ''
FROM generate_series(1, 100000) i;
INSERT INTO weaver.schedule_keys SELECT 'default', 'd' || i % 10, now() + i * interval '1 second', i, now()
FROM generate_series(1, 100000) i;
INSERT INTO weaver.idempotency_keys SELECT 'default', 'k' || i, i, now() FROM generate_series(1, 100000) i;
ANALYZE weaver.tasks; ANALYZE weaver.ready; ANALYZE weaver.leases; ANALYZE weaver.ended; ANALYZE weaver.events;
ANALYZE weaver.schedule_keys; ANALYZE weaver.idempotency_keys; ANALYZE weaver.task_labels;
ANALYZE weaver.closed_attempts;
";

/// The counts of what `FILL` has made, and its guards again.
const COUNTED: &str = "
INSERT INTO weaver.run_counts SELECT 'default', 'q' || q, s, 10000 FROM generate_series(0, 6) q,
    unnest(ARRAY[0, 6, 7]) s;
SELECT setval('weaver.job_run_ids', 3000000), setval('weaver.lease_ids', 1000000);
ALTER TABLE weaver.tasks ENABLE TRIGGER USER; ALTER TABLE weaver.ready ENABLE TRIGGER USER;
ALTER TABLE weaver.leases ENABLE TRIGGER USER; ALTER TABLE weaver.ended ENABLE TRIGGER USER;
ALTER TABLE weaver.task_labels ENABLE TRIGGER USER; ALTER TABLE weaver.closed_attempts ENABLE TRIGGER USER;
";

/// Queries, each with the index that must be used.
const QUESTIONS: [(&str, &str); 18] = [
    (
        "SELECT id FROM weaver.ready WHERE namespace = 'default' AND queue = 'q1' AND priority = 5 \
         AND ready_at <= now() ORDER BY ready_at, id LIMIT 10",
        "ready_order",
    ),
    ("SELECT ids FROM weaver.leases WHERE worker = 'w0' AND state = 2", "leases_worker"),
    ("SELECT ids FROM weaver.leases WHERE worker = 'w1' AND state = 4", "leases_worker"),
    ("SELECT ids FROM weaver.leases WHERE token = '00000000-0000-0000-0000-000000000007'", "leases_token"),
    ("SELECT ids FROM weaver.leases WHERE first_id = 2000100 AND NOT is_shared", "leases_task"),
    (
        "SELECT ids FROM weaver.leases WHERE is_shared AND int8range(first_id, last_id, '[]') @> 2000303::bigint",
        "leases_tasks",
    ),
    (
        "SELECT id FROM weaver.ready WHERE namespace = 'default' AND serial_key = 'k70' AND id < 2500000",
        "ready_serial",
    ),
    (
        "SELECT id FROM weaver.ready WHERE expires_at IS NOT NULL AND executions = 0 AND expires_at <= now()",
        "ready_expiring",
    ),
    ("SELECT id FROM weaver.tasks WHERE id < 900000 ORDER BY id DESC LIMIT 50", "tasks_pkey"),
    (
        "SELECT id FROM weaver.tasks WHERE namespace = 'default' AND task_type = 't7' ORDER BY id DESC LIMIT 50",
        "tasks_type",
    ),
    (
        "SELECT t.task_id FROM weaver.task_labels t WHERE t.namespace = 'default' AND t.task_id < 900000 \
         AND t.label = weaver.label('k', 'v10') ORDER BY t.task_id DESC LIMIT 51",
        "task_labels_pkey",
    ),
    ("SELECT count(*) FROM weaver.tasks WHERE namespace = 'default' AND queue = 'q9'", "tasks_queue"),
    (
        "SELECT id FROM weaver.ended WHERE namespace = 'default' AND state = 7 AND state <> 6 AND id < 900000",
        "ended_state",
    ),
    (
        "SELECT id FROM weaver.ended WHERE namespace = 'default' AND queue = 'q1' \
         AND finished_at <= now() - interval '999000 seconds' ORDER BY finished_at LIMIT 100",
        "ended_finished",
    ),
    (
        "SELECT id FROM weaver.events WHERE processed_at IS NULL ORDER BY created_at LIMIT 10",
        "events_unprocessed",
    ),
    ("SELECT id FROM weaver.events WHERE namespace = 'default' AND dedupe_key = 'e77'", "events_dedupe"),
    (
        "SELECT run_id FROM weaver.schedule_keys WHERE namespace = 'default' AND job_definition_id = 'd3' \
         AND scheduled_for = now()",
        "schedule_keys_pkey",
    ),
    (
        "SELECT run_id FROM weaver.idempotency_keys WHERE namespace = 'default' AND idempotency_key = 'k77'",
        "idempotency_keys_pkey",
    ),
];

#[tokio::test]
async fn each_index_is_used_for_the_query_it_is_for_at_a_million_rows() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    sqlx::raw_sql(schema.sql(FILL)).execute(&mut connection).await.expect("a superuser may");
    for (question, index) in QUESTIONS {
        let AssertSqlSafe(text) = schema.sql(question);
        let plan: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {text}")))
            .fetch_all(&mut connection)
            .await
            .expect("it can be planned");
        let plan = plan.join("\n");
        // A page must not read all selected rows.
        let sorts = question.contains("DESC LIMIT") && plan.contains("Sort");
        assert!(
            plan.contains(index) && !plan.contains("Seq Scan") && !sorts,
            "{question}\nis not answered by {index}, in its order:\n{plan}"
        );
    }
    connection
        .execute(AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", schema.name)))
        .await
        .expect("it is there");
    drop(store);
}

/// The tables that grow with the number of tasks ever enqueued. `leases` has what runs, and `overdue` reads
/// all of it.
const LARGE: &str =
    "'tasks', 'ready', 'ended', 'task_labels', 'schedule_keys', 'idempotency_keys', 'closed_attempts'";

/// How often each large table was read in full, once the sessions that did it are over and have reported it.
async fn full_reads(schema: &Schema, connection: &mut PgConnection) -> Vec<(String, i64)> {
    let others = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%{}.%' AND pid <> pg_backend_pid()",
        schema.name
    );
    while sqlx::query_scalar::<_, i64>(AssertSqlSafe(others.clone()))
        .fetch_one(&mut *connection)
        .await
        .expect("it answers")
        > 0
    {
        tokio::task::yield_now().await;
    }
    let text = format!(
        "SELECT relname::text, seq_scan FROM pg_stat_user_tables WHERE schemaname = '{}' AND relname IN \
        ({LARGE}) ORDER BY 1",
        schema.name
    );
    sqlx::query_as(AssertSqlSafe(text)).fetch_all(connection).await.expect("it answers")
}

async fn open(schema: &Schema) -> PostgresStore {
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    PostgresStore::open(schema.options(), clock).await.expect("the schema can be made")
}

async fn lease(store: &PostgresStore, queue: &'static str) -> Vec<Leased> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let token = LeaseToken(NEXT.fetch_add(1, Ordering::Relaxed).into());
    let (worker, queue) = (WorkerId::new("w").expect("a name"), QueueName::new(queue).expect("a name"));
    let request = LeaseRequest::new(Namespace::default(), queue, worker, token);
    store.lease(LeaseRequest { max: 9, slots: 9, ..request }).await.expect("the store answers")
}

async fn end(store: &PostgresStore, leased: &Leased, outcome: Outcome) {
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
    let answers = store.commit(vec![end], None).await.expect("the store answers");
    assert!(matches!(answers[0], Committed::Applied { .. }), "{answers:?}");
}

/// Each call on tasks, and each list that has an index.
async fn live(store: &PostgresStore) {
    let keyed = |key: &str| {
        NewTask::new("t").queue("q2").serial_key("s").idempotency_key(key.to_owned()).label("k", "v10")
    };
    let scheduled = NewTask::new("t").job_definition_id("d3").scheduled_for(Timestamp::default());
    store.enqueue_batch(vec![NewTask::new("t").queue("q1"); 20]).await.expect("the store answers");
    store
        .enqueue_batch(vec![keyed("a"), keyed("b"), keyed("a"), scheduled])
        .await
        .expect("the store answers");
    let leased = lease(store, "q1").await;
    let renewals = leased.iter().map(|leased| Renewal::of(leased.lease.clone())).collect();
    store.renew(renewals).await.expect("the store answers");
    end(store, &leased[0], Outcome::DONE).await;
    end(store, &leased[1], Outcome::failed("again")).await;
    store.cancel(&leased[2].lease.key).await.expect("it runs");
    store.confirm_stopped(vec![leased[2].lease.clone()]).await.expect("the store answers");
    for leased in lease(store, "q2").await {
        end(store, &leased, Outcome::DONE).await;
    }
    let waiting = TaskKey::new(Namespace::default(), TaskId(2_000_013));
    store.ahead_of(&waiting, 100).await.expect("the store answers");
    store.cancel(&waiting).await.expect("it waits");
    store.retry(&waiting).await.expect("it has ended");
    store.get_tasks(&[waiting, leased[0].lease.key.clone()]).await.expect("the store answers");
    store.overdue(100).await.expect("the store answers");
    let queue = QueueName::new("q1").expect("a name");
    for selector in [
        Selector::All,
        Selector::State(TaskState::Dead),
        Selector::Type(TaskType::new("t7").expect("a name")),
        Selector::Queue(queue.clone()),
        Selector::Label("k".to_owned(), "v10".to_owned()),
        Selector::SerialKey(SerialKey::new("k70").expect("a name")),
    ] {
        let query = TaskQuery { selector, ..TaskQuery::new(Namespace::default()) };
        store.list_tasks(query).await.expect("the store answers");
    }
    let rule = PurgeRule {
        namespace: None,
        queue: Some(queue),
        state: None,
        finished_for: Duration::from_secs(90_000),
    };
    assert!(store.purge_tasks(rule, 100).await.expect("the store answers").count > 0);
}

#[tokio::test]
async fn no_call_reads_a_large_table_in_full() {
    let schema = Schema::new();
    open(&schema).await.pool().close().await;
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    // A tenth of the rows: every index is chosen as with all of them, which `--all` uses.
    let rows = if std::env::var_os(weaver_testkit::sample::ALL).is_some() { "1000000" } else { "100000" };
    let fill = FILL.replace("1000000", rows);
    sqlx::raw_sql(schema.sql(&fill)).execute(&mut connection).await.expect("a superuser may");
    // The names are not in this session's last statement when its own reads are counted.
    sqlx::raw_sql(schema.sql(COUNTED)).execute(&mut connection).await.expect("a superuser may");
    connection.close().await.expect("it ends");
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let before = full_reads(&schema, &mut connection).await;
    assert_eq!(before.len(), 7, "{before:?}");
    let store = open(&schema).await;
    live(&store).await;
    store.pool().close().await;
    drop(store);
    assert_eq!(full_reads(&schema, &mut connection).await, before);
    connection
        .execute(AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", schema.name)))
        .await
        .expect("it is there");
}

/// Beyond this cost the server JIT-compiles a statement, which takes up to a second.
const COMPILED_FROM: f64 = 100_000.0;

/// Many moves that are not rolled up yet, in tables of which only the largest has been analyzed.
const MOVES: &str = "
INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states, count_deltas)
SELECT now(), '{}', '{}', '{}', '{}', array_fill('default'::text, ARRAY[20]), array_fill('q'::text, ARRAY[20]),
    array_fill(0::smallint, ARRAY[20]), array_fill(1, ARRAY[20])
FROM generate_series(1, 5000);
ANALYZE weaver.moves;
";

#[tokio::test]
async fn counts_are_planned_as_cheap_before_the_tables_are_analyzed() {
    let schema = Schema::new();
    let clock = Arc::new(weaver_runtime::SystemClock::new());
    let _store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let mut connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    sqlx::raw_sql(schema.sql(MOVES)).execute(&mut connection).await.expect("a superuser may");
    for question in [
        "SELECT * FROM weaver.counts('default', NULL)",
        "SELECT * FROM weaver.counts('default', 'q')",
        "SELECT * FROM weaver.namespaces()",
    ] {
        let AssertSqlSafe(text) = schema.sql(question);
        let explain = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN {text}")));
        let plan: Vec<String> = explain.fetch_all(&mut connection).await.expect("a plan");
        // `HashAggregate  (cost=0.00..12.34 rows=…`
        let cost = plan[0].split("..").nth(1).and_then(|rest| rest.split(' ').next());
        let cost: f64 = cost.expect("a cost").parse().expect("a number");
        assert!(cost < COMPILED_FROM, "{question}: {plan:#?}");
    }
}
