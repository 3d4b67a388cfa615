//! The guard triggers of history and of inserts: history, attempts and audit log are immutable; a task is
//! inserted once, as a waiting one.

mod support;

use std::time::Duration;

use support::schema_owner::SchemaOwner;
use weaver_core::ports::{Admin, Journal, PurgeRule, Selector, StreamKey, TaskQuery, Tasks};
use weaver_core::prelude::*;

#[tokio::test]
async fn live_tasks_cannot_be_deleted_by_sql() {
    let mut owner = SchemaOwner::new().await;
    for _ in 0..3 {
        owner.enqueue().await;
    }
    let running = owner.lease().await.lease.key.id;
    let held = owner.lease().await.lease.key;
    owner.store.cancel(&held).await.expect("it runs");
    for text in [
        "DELETE FROM weaver.job_runs".to_owned(),
        "DELETE FROM weaver.job_runs WHERE state = 'PENDING'".to_owned(),
        format!("DELETE FROM weaver.job_runs WHERE id = {running}"),
        format!("DELETE FROM weaver.job_runs WHERE id = {}", held.id),
    ] {
        owner.refused(&text).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn history_attempts_and_audit_cannot_be_updated_or_deleted_by_sql() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    owner.end(&owner.lease().await, Outcome::failed("x")).await;
    let run_now = owner.store.run_now(&SchemaOwner::key(1)).await;
    run_now.expect("it waits");
    owner.end(&owner.lease().await, Outcome::DONE).await;
    let audit = StreamKey { namespace: Namespace::default(), name: "audit".to_owned() };
    owner.store.append_entries(&audit, &["entry".into()]).await.expect("the store answers");
    for text in [
        "UPDATE weaver.job_run_history SET state = 'FAILED'",
        "UPDATE weaver.job_run_history SET version = version + 1",
        "UPDATE weaver.job_run_history SET finished_at = now()",
        "UPDATE weaver.job_run_history SET payload = '', task_type = 'other'",
        "UPDATE weaver.job_run_history SET failures = 0",
        "DELETE FROM weaver.job_run_history",
        "UPDATE weaver.closed_attempts SET outcome = 'succeeded'",
        "DELETE FROM weaver.closed_attempts",
        "TRUNCATE weaver.closed_attempts",
        "INSERT INTO weaver.closed_attempts VALUES ('default', 1, 9, 'w', 1, now(), now(), 'failed', NULL)",
        "UPDATE weaver.audit SET body = ''",
        "DELETE FROM weaver.audit",
        "TRUNCATE weaver.audit",
        "INSERT INTO weaver.audit VALUES ('default', 'audit', 99, now(), '')",
    ] {
        owner.refused(text).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn nothing_is_inserted_into_history_by_sql() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    let id = owner.lease().await.lease.key.id;
    let forged = "INSERT INTO weaver.job_run_history SELECT * FROM weaver.job_runs WHERE id = ";
    owner.refused(&format!("{forged}{id}")).await;
    // Its end is an update of the live run, if it is one that Weaver itself could make.
    let end = "UPDATE weaver.job_runs SET state = 'SUCCEEDED', outcome = 'succeeded', version = version + 1, \
         finished_at = now(), updated_at = now(), lease_token = NULL, lease_expires_at = NULL, \
         lease_ttl_us = NULL";
    // No success has a cause, and nothing failed.
    for columns in [", cause = 'lost'", ", failures = 1"] {
        owner.refused(&format!("{end}{columns} WHERE id = {id}")).await;
    }
    assert!(owner.accepts(&format!("{end} WHERE id = {id}")).await);
    owner.done().await;
}

#[tokio::test]
async fn finished_tasks_are_deleted_only_by_recorded_purges() {
    let mut owner = SchemaOwner::new().await;
    for _ in 0..2 {
        owner.enqueue().await;
        owner.end(&owner.lease().await, Outcome::DONE).await;
    }
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    assert_eq!(owner.store.purge_tasks(rule, 1).await.expect("the store answers").count, 1);
    // With a row in `purges` in the same transaction; and not in the next one.
    let recorded = "INSERT INTO weaver.purges (what) VALUES ('test'); DELETE FROM weaver.job_run_history";
    sqlx::raw_sql(owner.schema.sql(recorded)).execute(&mut owner.connection).await.expect("it is recorded");
    owner.enqueue().await;
    owner.end(&owner.lease().await, Outcome::DONE).await;
    owner.refused("DELETE FROM weaver.job_run_history").await;
    for text in ["UPDATE weaver.purges SET what = ''", "DELETE FROM weaver.purges", "TRUNCATE weaver.purges"]
    {
        owner.refused(text).await;
    }
    let purges: Vec<String> =
        sqlx::query_scalar(owner.schema.sql("SELECT what FROM weaver.purges ORDER BY at"))
            .fetch_all(&mut owner.connection)
            .await
            .expect("it is there");
    assert_eq!(purges, ["1 finished runs", "test"]);
    owner.done().await;
}

/// An INSERT of a task in plain SQL, with additional columns.
fn inserted(columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO weaver.job_runs (id, version, renewals, created_at, updated_at, ready_at, attempt, executions, \
         failures, losses, max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace, queue, \
         task_type, payload{columns}) SELECT nextval('weaver.job_run_ids'), 1, 0, now(), now(), now(), 0, 0, 0, 0, 5, \
         3, 5, false, 'PENDING', 'NONE', 'default', 'default', 't', 'null'{values}"
    )
}

#[tokio::test]
async fn sql_can_insert_only_a_well_formed_pending_task() {
    let mut owner = SchemaOwner::new().await;
    for (from, to) in [
        ("'PENDING'", "'RUNNING'"),
        ("'PENDING'", "'SUCCEEDED'"),
        ("SELECT nextval('weaver.job_run_ids'), 1", "SELECT nextval('weaver.job_run_ids'), 2"),
        ("0, 0, 0, 0, 5", "1, 0, 0, 0, 5"),
        ("0, 0, 0, 0, 5", "0, 0, 0, 0, 0"),
        ("0, 0, 0, 0, 5", "0, 0, 0, 0, 10001"),
        ("3, 5, false", "-1, 5, false"),
        ("3, 5, false", "3, 10, false"),
        ("3, 5, false", "3, 5, true"),
        ("'default', 'default', 't'", "'default', '', 't'"),
        ("'default', 'default', 't'", "'default', repeat('q', 256), 't'"),
        ("'NONE'", "'CONFIRMING'"),
    ] {
        let text = inserted("", "").replace(from, to);
        assert_ne!(text, inserted("", ""), "{from}");
        owner.refused(&text).await;
    }
    for (column, value) in [
        (", lease_token", ", gen_random_uuid()"),
        (", assigned_worker_id", ", 'w'"),
        (", finished_at", ", now()"),
        (", result", ", ''::bytea"),
    ] {
        owner.refused(&inserted(column, value)).await;
    }
    assert!(owner.accepts(&inserted("", "")).await);
    assert_eq!(owner.lease().await.record.attempt, 1, "it is a run like any other");
    assert!(owner.accepts(&inserted(", labels", ", '{\"team\": \"a\"}'::jsonb")).await);
    let selector = Selector::Label("team".to_owned(), "a".to_owned());
    let query = TaskQuery { selector, ..TaskQuery::new(Namespace::default()) };
    let page = owner.store.list_tasks(query).await.expect("the store answers");
    assert_eq!(page.items.len(), 1, "its labels are found");
    owner.done().await;
}

#[tokio::test]
async fn a_schedule_has_one_task_per_instant_whether_the_first_is_live_or_finished() {
    let mut owner = SchemaOwner::new().await;
    let at = "timestamptz '2026-01-31 09:30:00+00'";
    let run = inserted(", job_definition_id, scheduled_for", &format!(", 'd', {at}"));
    assert!(owner.accepts(&run).await);
    owner.refused(&run).await;
    owner.end(&owner.lease().await, Outcome::DONE).await;
    owner.refused(&run).await;
    let instant: Timestamp = "2026-01-31T09:30:00Z".parse().expect("an instant");
    let again = NewTask::new("t").job_definition_id("d").scheduled_for(instant);
    let answers = owner.store.enqueue_batch(vec![again]).await.expect("the store answers");
    assert!(answers[0].as_ref().expect("it is answered").existing, "Weaver finds the one that SQL inserted");
    for text in [
        "DELETE FROM weaver.schedule_keys",
        "UPDATE weaver.schedule_keys SET run_id = 99",
        "TRUNCATE weaver.schedule_keys",
    ] {
        owner.refused(text).await;
    }
    let keyed = inserted(", idempotency_key", ", 'k'");
    assert!(owner.accepts(&keyed).await);
    owner.refused(&keyed).await;
    owner.done().await;
}
