//! The upper bound: the shortest hand-written SQL for a lifecycle on Weaver's own tables. It has no rules, no
//! order between queues, no keys, no events and no counts; its triggers are those of the schema.

use std::time::Instant;

use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tokio::runtime::Runtime;
use weaver_benches::per_second;

use crate::server::Server;
use crate::weaver::payload;

const ENQUEUE: &str = "INSERT INTO weaver.job_runs (id, version, renewals, created_at, updated_at, ready_at, attempt, \
    executions, failures, losses, max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace, \
    queue, task_type, payload) SELECT nextval('weaver.job_run_ids'), 1, 0, now(), now(), now(), 0, 0, 0, 0, 5, 3, 5, \
    false, 'PENDING', 'NONE', 'default', 'default', 'bench', p FROM unnest($1::bytea[]) AS i (p)";
const LEASE: &str = "UPDATE weaver.job_runs SET state = 'RUNNING', version = version + 1, attempt = 1, executions = 1, \
    first_started_at = now(), assigned_worker_id = 'bench', lease_token = gen_random_uuid(), lease_started_at = now(), \
    lease_expires_at = now() + interval '30 seconds', lease_ttl_us = 30000000 WHERE ctid = ANY (ARRAY(SELECT ctid FROM \
    weaver.job_runs WHERE namespace = 'default' AND queue = 'default' AND priority = 5 AND ready_at <= now() \
    AND state IN ('PENDING', 'RETRY_SCHEDULED') ORDER BY ready_at, id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED)) \
    RETURNING id, payload";
const END: &str = "WITH gone AS (DELETE FROM weaver.job_runs WHERE namespace = 'default' AND id = ANY ($1) RETURNING *) \
    INSERT INTO weaver.job_run_history (id, created_at, updated_at, ready_at, first_started_at, finished_at, lease_started_at, lease_expires_at, lease_ttl_us, lease_token, leader_epoch, assigned_at, assigned_epoch, scheduled_for, expires_at, timeout_us, continuation_check_deadline_at, retry_of, version, renewals, attempt, executions, failures, losses, max_attempts, max_losses, progress_fraction, priority, scheduled, state, cause, outcome, continuation_state, namespace, queue, task_type, assigned_worker_id, serial_key, idempotency_key, job_definition_id, task_group_id, session_id, content_type, labels, retry, trace, progress_message, last_error, log_ref, result, payload) SELECT id, created_at, now(), ready_at, first_started_at, now(), \
    lease_started_at, NULL, NULL, NULL, leader_epoch, NULL, NULL, scheduled_for, expires_at, timeout_us, NULL, retry_of, \
    version + 1, renewals, attempt, executions, failures, losses, max_attempts, max_losses, progress_fraction, priority, \
    scheduled, 'SUCCEEDED', NULL, 'succeeded', 'NONE', namespace, queue, task_type, assigned_worker_id, serial_key, \
    idempotency_key, job_definition_id, task_group_id, session_id, content_type, labels, retry, trace, progress_message, \
    last_error, log_ref, result, payload FROM gone";

/// Creates Weaver's schema in its database.
pub fn open(runtime: &Runtime, server: &Server) {
    let options = weaver_postgres::PostgresOptions::parse(&server.url("hand_written")).expect("a URL");
    runtime
        .block_on(weaver_postgres::PostgresStore::migrate(&options, false))
        .expect("the schema can be made");
}

/// Lifecycles per second, as [`crate::weaver::lifecycles`].
pub fn lifecycles(runtime: &Runtime, server: &Server, clients: usize, batch: usize, calls: usize) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..clients {
        let mut connection = runtime.block_on(server.connect("hand_written"));
        // The planner settings of Weaver's own functions.
        let set = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; \
                   SET jit = off";
        runtime.block_on(connection.execute(set)).expect("the server answers");
        connections.push(connection);
    }
    let begun = Instant::now();
    let clients: Vec<_> =
        connections.into_iter().map(|connection| runtime.spawn(client(connection, batch, calls))).collect();
    let count = clients.len();
    clients.into_iter().for_each(|client| runtime.block_on(client).expect("it ends well"));
    per_second((count * batch * calls) as u64, begun.elapsed())
}

async fn client(mut connection: PgConnection, batch: usize, calls: usize) {
    let say = |text: &'static str| sqlx::query(AssertSqlSafe(text));
    for _ in 0..calls {
        let payloads = vec![payload().into_bytes(); batch];
        say(ENQUEUE).bind(payloads).execute(&mut connection).await.expect("the server answers");
        let mut left = batch;
        while left > 0 {
            let leased: Vec<(i64, Vec<u8>)> = sqlx::query_as(LEASE)
                .bind(left as i64)
                .fetch_all(&mut connection)
                .await
                .expect("the server answers");
            left -= leased.len();
            let ids: Vec<i64> = leased.iter().map(|(id, _)| *id).collect();
            say(END).bind(ids).execute(&mut connection).await.expect("the server answers");
        }
    }
}
