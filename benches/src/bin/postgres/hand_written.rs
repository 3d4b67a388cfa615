//! The upper bound: the shortest hand-written SQL for a lifecycle on Weaver's own tables. It has no rules, no
//! order between queues, no keys, no events and no counts; it has no guards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tokio::runtime::Runtime;
use weaver_benches::per_second;

use crate::server::Server;
use crate::weaver::payload;

const ENQUEUE: &str = "WITH new AS (INSERT INTO weaver.tasks (id, created_at, max_attempts, max_losses, priority, namespace, \
    queue, task_type, payload) SELECT nextval('weaver.job_run_ids'), now(), 5, 3, 5, 'default', 'default', 'bench', p \
    FROM unnest($1::bytea[]) AS i (p) RETURNING id) INSERT INTO weaver.ready (id, ready_at, version, attempt, executions, \
    renewals, failures, losses, max_losses, priority, format, state, namespace, queue, task_type) \
    SELECT id, now(), 1, 0, 0, 0, 0, 0, 3, 5, 1, 0, 'default', 'default', 'bench' FROM new";
const LEASE: &str = "WITH taken AS (DELETE FROM weaver.ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM weaver.ready WHERE \
    namespace = 'default' AND queue = 'default' AND priority = 5 AND ready_at <= now() ORDER BY ready_at, id LIMIT $1 \
    FOR UPDATE SKIP LOCKED)) RETURNING id), lease AS (INSERT INTO weaver.leases (first_id, last_id, token, started_at, \
    expires_at, ttl_us, version, attempt, executions, renewals, failures, losses, format, state, is_shared, namespace, queue, \
    worker, ids) SELECT min(id), max(id), $2::text::uuid, now(), now() + interval '30 seconds', 30000000, 2, 1, 1, 0, 0, 0, 1, 4, \
    true, 'default', 'default', 'bench', array_agg(id) FROM taken HAVING count(*) > 0) \
    SELECT s.id, s.payload FROM taken JOIN weaver.tasks s USING (id)";
const END: &str = "WITH lease AS (DELETE FROM weaver.leases WHERE token = $2::text::uuid RETURNING started_at) \
    INSERT INTO weaver.ended (id, finished_at, started_at, version, attempt, state, namespace, queue, worker) \
    SELECT i.id, now(), l.started_at, 3, 1, 6, 'default', 'default', 'bench' FROM unnest($1::bigint[]) AS i (id), lease l";

/// Creates Weaver's schema in its database.
pub fn open(runtime: &Runtime, server: &Server) {
    let options = weaver_postgres::PostgresOptions::parse(&server.url("hand_written")).expect("a URL");
    runtime
        .block_on(weaver_postgres::PostgresStore::migrate(&options, false))
        .expect("the schema can be made");
    let tables = ["tasks", "ready", "leases", "ended"];
    let unguarded = tables.map(|table| format!("ALTER TABLE weaver.{table} DISABLE TRIGGER USER")).join("; ");
    server.say(runtime, "hand_written", &unguarded);
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
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    for _ in 0..calls {
        let payloads = vec![payload().into_bytes(); batch];
        say(ENQUEUE).bind(payloads).execute(&mut connection).await.expect("the server answers");
        let mut left = batch;
        while left > 0 {
            let token = format!("00000000-0000-0000-0000-{:012x}", TOKENS.fetch_add(1, Ordering::Relaxed));
            let leased: Vec<(i64, Vec<u8>)> = sqlx::query_as(LEASE)
                .bind(left as i64)
                .bind(&token)
                .fetch_all(&mut connection)
                .await
                .expect("the server answers");
            left -= leased.len();
            let ids: Vec<i64> = leased.iter().map(|(id, _)| *id).collect();
            say(END).bind(ids).bind(&token).execute(&mut connection).await.expect("the server answers");
        }
    }
}
