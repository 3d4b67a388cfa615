//! A start is never stamped before the end it waited for.

mod support;

use std::sync::Arc;

use sqlx::{Connection, Executor, PgConnection, Row};
use support::Schema;
use weaver_core::prelude::*;
use weaver_postgres::PostgresStore;
use weaver_runtime::SystemClock;

/// Held by the test: an armed clock reads its time and then waits for this lock.
const LOCK: i64 = 4711;

/// A clock that advances by a second with each reading, and can be made to wait after it.
const STEPPING: &str = "CREATE SEQUENCE weaver.test_ticks;
    CREATE TABLE weaver.test_armed (tick bigint);
    CREATE OR REPLACE FUNCTION weaver.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
    DECLARE
        v_tick bigint := nextval('weaver.test_ticks');
    BEGIN
        IF EXISTS (SELECT FROM weaver.test_armed WHERE tick = v_tick) THEN
            PERFORM pg_advisory_xact_lock_shared(4711);
        END IF;
        RETURN timestamptz '2026-01-01 00:00:00+00' + v_tick * interval '1 second';
    END
    $$";

async fn lease(store: &PostgresStore, number: u128) -> Vec<Leased> {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(number));
    store.lease(request).await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn a_start_is_never_stamped_before_its_predecessors_end() {
    let schema = Schema::new();
    let store = PostgresStore::open(schema.options(), Arc::new(SystemClock::new())).await.expect("it opens");
    let store = Arc::new(store);
    let mut test = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    sqlx::raw_sql(schema.sql(STEPPING)).execute(&mut test).await.expect("the clock can be replaced");
    for _ in 0..2 {
        store.enqueue(NewTask::new("t").serial_key("k")).await.expect("stored");
    }
    let first = lease(&store, 1).await.remove(0);

    test.execute(sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK)).await.expect("it is free");
    let arm = schema.sql("INSERT INTO weaver.test_armed SELECT last_value + 1 FROM weaver.test_ticks");
    test.execute(sqlx::raw_sql(arm)).await.expect("the table is there");
    let second = tokio::spawn({
        let store = Arc::clone(&store);
        async move { lease(&store, 2).await }
    });
    // It has read the clock and not yet picked a task.
    let waits =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted)";
    while !test.fetch_one(waits).await.expect("it answers").get::<bool, _>(0) {
        tokio::task::yield_now().await;
    }
    store.mark_succeeded(&first, None).await.expect("the lease is valid");
    test.execute(sqlx::query("SELECT pg_advisory_unlock($1)").bind(LOCK)).await.expect("it is held");

    let second = second.await.expect("it ran").remove(0);
    let ended = store.get_task(&first.lease.key).await.expect("there").finished_at.expect("it has ended");
    let started = second.record.lease.expect("it runs").started_at;
    assert!(started > ended, "started at {started}, its predecessor ended at {ended}");
    schema.drop(store.pool()).await;
}
