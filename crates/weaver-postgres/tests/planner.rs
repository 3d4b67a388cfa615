//! Each index is used for the query it is for, at a million rows.

mod support;

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use support::Schema;
use weaver_postgres::PostgresStore;

/// A million finished runs, fifty thousand live ones, and a hundred thousand events and keys.
const FILL: &str = "
ALTER TABLE weaver.job_runs DISABLE TRIGGER USER; ALTER TABLE weaver.job_run_history DISABLE TRIGGER USER;
INSERT INTO weaver.job_run_history (id, version, renewals, created_at, updated_at, ready_at, finished_at, attempt,
    executions, failures, losses, max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace,
    queue, task_type, labels, payload)
SELECT i, 3, 0, now(), now(), now(), now() - i * interval '1 second', 1, 1, 0, 0, 5, 3, 5, false,
    CASE WHEN i % 1000 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 'NONE', 'default', 'q' || i % 7, 't' || i % 1000,
    CASE WHEN i % 10 = 0 THEN jsonb_build_object('k', 'v' || i % 200) END, 'null'
FROM generate_series(1, 1000000) i;
INSERT INTO weaver.job_run_labels SELECT 'default', weaver.label('k', 'v' || i % 200), i
FROM generate_series(10, 1000000, 10) i;
INSERT INTO weaver.job_runs (id, version, renewals, created_at, updated_at, ready_at, attempt, executions, failures, losses,
    max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace, queue, task_type,
    assigned_worker_id, lease_token, serial_key, expires_at, payload)
SELECT 2000000 + i, 1, 0, now(), now(), now() - i * interval '1 second', 0, 0, 0, 0, 5, 3, i % 10, false,
    CASE WHEN i % 100 = 0 THEN 'ASSIGNED' WHEN i % 101 = 0 THEN 'RUNNING' ELSE 'PENDING' END, 'NONE', 'default',
    'q' || i % 7, 't', CASE WHEN i % 100 = 0 OR i % 101 = 0 THEN 'w' || i % 50 END,
    CASE WHEN i % 101 = 0 THEN gen_random_uuid() END, CASE WHEN i % 10 = 0 THEN 'k' || i % 5000 END,
    CASE WHEN i % 50 = 0 THEN now() + i * interval '1 second' END, 'null'
FROM generate_series(1, 50000) i;
INSERT INTO weaver.events (namespace, kind, id, version, due_at, created_at, updated_at, body)
SELECT 'default', 'event', 'e' || i, i, CASE WHEN i % 100 = 0 THEN now() END, now() - i * interval '1 second', now(), ''
FROM generate_series(1, 100000) i;
INSERT INTO weaver.schedule_keys SELECT 'default', 'd' || i % 10, now() + i * interval '1 second', i, now()
FROM generate_series(1, 100000) i;
INSERT INTO weaver.idempotency_keys SELECT 'default', 'k' || i, i, now() FROM generate_series(1, 100000) i;
ANALYZE weaver.job_run_history; ANALYZE weaver.job_runs; ANALYZE weaver.events; ANALYZE weaver.schedule_keys;
ANALYZE weaver.idempotency_keys; ANALYZE weaver.job_run_labels;
";

/// Queries, each with the index that must be used.
const QUESTIONS: [(&str, &str); 16] = [
    (
        "SELECT id FROM weaver.job_runs WHERE namespace = 'default' AND queue = 'q1' AND priority = 5 \
         AND state IN ('PENDING', 'RETRY_SCHEDULED') AND ready_at <= now() ORDER BY ready_at, id LIMIT 10",
        "job_runs_ready",
    ),
    (
        "SELECT id FROM weaver.job_runs WHERE assigned_worker_id = 'w0' AND state = 'ASSIGNED'",
        "job_runs_assigned",
    ),
    (
        "SELECT id FROM weaver.job_runs WHERE assigned_worker_id = 'w1' AND state = 'RUNNING' \
         AND lease_token IS NOT NULL",
        "job_runs_leased",
    ),
    (
        "SELECT id FROM weaver.job_runs WHERE lease_token = '00000000-0000-0000-0000-000000000007'",
        "job_runs_leased",
    ),
    (
        "SELECT id FROM weaver.job_runs WHERE namespace = 'default' AND serial_key = 'k70' AND id < 2500000",
        "job_runs_serial",
    ),
    (
        "SELECT id FROM weaver.job_runs WHERE expires_at IS NOT NULL AND executions = 0 AND expires_at <= now()",
        "job_runs_expiring",
    ),
    (
        "SELECT id FROM weaver.job_run_history WHERE namespace = 'default' AND id < 900000 ORDER BY id DESC LIMIT 50",
        "job_run_history_pkey",
    ),
    (
        "SELECT id FROM weaver.job_run_history WHERE namespace = 'default' AND task_type = 't7' \
         ORDER BY id DESC LIMIT 50",
        "job_run_history_type",
    ),
    (
        "SELECT l.run_id FROM weaver.job_run_labels l WHERE l.namespace = 'default' AND l.run_id < 900000 \
         AND l.label = weaver.label('k', 'v10') ORDER BY l.run_id DESC LIMIT 51",
        "job_run_labels_pkey",
    ),
    (
        "SELECT count(*) FROM weaver.job_run_history WHERE namespace = 'default' AND queue = 'q9'",
        "job_run_history_queue",
    ),
    (
        "SELECT id FROM weaver.job_run_history WHERE namespace = 'default' AND state IN ('FAILED', 'TIMED_OUT') \
         AND id < 900000",
        "job_run_history_state",
    ),
    (
        "SELECT id FROM weaver.job_run_history WHERE finished_at <= now() - interval '999000 seconds' \
         ORDER BY finished_at LIMIT 100",
        "job_run_history_finished",
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
