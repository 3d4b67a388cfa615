//! The guards of what has ended and of what enters: history, attempts and audit stay as they are; a run
//! enters once, as one that waits.

mod support;

use std::time::Duration;

use support::hand::Hand;
use weaver_core::ports::{Admin, Journal, PurgeRule, StreamKey};
use weaver_core::prelude::*;

#[tokio::test]
async fn live_runs_are_not_removed_by_hand() {
    let mut hand = Hand::new().await;
    for _ in 0..3 {
        hand.enqueue().await;
    }
    let running = hand.lease().await.lease.key.id;
    let held = hand.lease().await.lease.key;
    hand.store.cancel(&held).await.expect("it runs");
    for text in [
        "DELETE FROM weaver.job_runs".to_owned(),
        "DELETE FROM weaver.job_runs WHERE state = 'PENDING'".to_owned(),
        format!("DELETE FROM weaver.job_runs WHERE id = {running}"),
        format!("DELETE FROM weaver.job_runs WHERE id = {}", held.id),
        "TRUNCATE weaver.job_runs".to_owned(),
        "INSERT INTO weaver.departures VALUES (pg_current_xact_id(), 0, 0)".to_owned(),
    ] {
        hand.refused(&text).await;
    }
    hand.done().await;
}

#[tokio::test]
async fn history_attempts_and_audit_cannot_be_rewritten_or_removed_by_hand() {
    let mut hand = Hand::new().await;
    hand.enqueue().await;
    hand.end(&hand.lease().await, Outcome::failed("x")).await;
    let run_now = hand.store.run_now(&Hand::key(1)).await;
    run_now.expect("it waits");
    hand.end(&hand.lease().await, Outcome::DONE).await;
    let audit = StreamKey { namespace: Namespace::default(), name: "audit".to_owned() };
    hand.store.append_entries(&audit, &["entry".into()]).await.expect("the store answers");
    for text in [
        "UPDATE weaver.job_run_history SET state = 'FAILED'",
        "UPDATE weaver.job_run_history SET version = version + 1",
        "UPDATE weaver.job_run_history SET finished_at = now()",
        "UPDATE weaver.job_run_history SET payload = '', task_type = 'other'",
        "UPDATE weaver.job_run_history SET failures = 0",
        "DELETE FROM weaver.job_run_history",
        "TRUNCATE weaver.job_run_history",
        "UPDATE weaver.closed_attempts SET outcome = 'succeeded'",
        "DELETE FROM weaver.closed_attempts",
        "TRUNCATE weaver.closed_attempts",
        "INSERT INTO weaver.closed_attempts VALUES ('default', 1, 9, 'w', 1, now(), now(), 'failed', NULL)",
        "UPDATE weaver.audit SET body = ''",
        "DELETE FROM weaver.audit",
        "TRUNCATE weaver.audit",
        "INSERT INTO weaver.audit VALUES ('default', 'audit', 99, now(), '')",
    ] {
        hand.refused(text).await;
    }
    assert!(hand.does("UPDATE weaver.job_run_history SET log_ref = 'elsewhere'").await);
    hand.done().await;
}

/// A copy of a live run as if it had succeeded, with something changed.
fn forged(source: &str, columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO weaver.job_run_history (id, version, renewals, created_at, ready_at, finished_at, attempt, \
         executions, failures, losses, max_attempts, max_losses, priority, scheduled, state, outcome, \
         continuation_state, namespace, queue, task_type, assigned_worker_id, first_started_at, lease_started_at, \
         payload{columns}) SELECT id, version + 1, renewals, created_at, ready_at, now(), attempt, executions, \
         failures, losses, max_attempts, max_losses, priority, scheduled, 'SUCCEEDED', 'succeeded', 'NONE', \
         namespace, queue, task_type, assigned_worker_id, first_started_at, lease_started_at, {values} FROM {source}"
    )
}

#[tokio::test]
async fn only_what_was_live_enters_history_and_as_it_was() {
    let mut hand = Hand::new().await;
    hand.enqueue().await;
    let id = hand.lease().await.lease.key.id;
    let live = format!("weaver.job_runs WHERE id = {id}");
    // Still live; never live; live, but another; live, but with a cause that no success has.
    hand.refused(&forged(&live, "", "payload")).await;
    hand.refused(&forged(&live, "", "payload").replace("SELECT id,", "SELECT id + 1000,")).await;
    let gone = format!("WITH gone AS (DELETE FROM {live} RETURNING *) ");
    for (columns, values) in
        [("", "'other'::bytea"), (", cause", "payload, 'lost'"), (", last_error", "payload, 'x'")]
    {
        let text = format!("{gone}{}", forged("gone", columns, values));
        let text =
            if columns == ", last_error" { text.replace("version + 1,", "version + 2,") } else { text };
        hand.refused(&text).await;
    }
    // And that is all: what Weaver itself does is done.
    assert!(hand.does(&format!("{gone}{}", forged("gone", "", "payload"))).await);
    hand.done().await;
}

#[tokio::test]
async fn finished_runs_are_removed_by_purges_that_are_on_record() {
    let mut hand = Hand::new().await;
    for _ in 0..2 {
        hand.enqueue().await;
        hand.end(&hand.lease().await, Outcome::DONE).await;
    }
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    assert_eq!(hand.store.purge_tasks(rule, 1).await.expect("the store answers").count, 1);
    // By hand with an announcement, in one transaction; and not in the next.
    let by_hand = "INSERT INTO weaver.purges (what) VALUES ('by hand'); DELETE FROM weaver.job_run_history";
    sqlx::raw_sql(hand.schema.sql(by_hand)).execute(&mut hand.connection).await.expect("it is announced");
    hand.enqueue().await;
    hand.end(&hand.lease().await, Outcome::DONE).await;
    hand.refused("DELETE FROM weaver.job_run_history").await;
    for text in ["UPDATE weaver.purges SET what = ''", "DELETE FROM weaver.purges", "TRUNCATE weaver.purges"]
    {
        hand.refused(text).await;
    }
    let purges: Vec<String> =
        sqlx::query_scalar(hand.schema.sql("SELECT what FROM weaver.purges ORDER BY at"))
            .fetch_all(&mut hand.connection)
            .await
            .expect("it is there");
    assert_eq!(purges, ["1 finished runs", "by hand"]);
    hand.done().await;
}

/// A run by hand, with something added.
fn inserted(columns: &str, values: &str) -> String {
    format!(
        "INSERT INTO weaver.job_runs (id, version, renewals, created_at, updated_at, ready_at, attempt, executions, \
         failures, losses, max_attempts, max_losses, priority, scheduled, state, continuation_state, namespace, queue, \
         task_type, payload{columns}) SELECT nextval('weaver.job_run_ids'), 1, 0, now(), now(), now(), 0, 0, 0, 0, 5, \
         3, 5, false, 'PENDING', 'NONE', 'default', 'default', 't', 'null'{values}"
    )
}

#[tokio::test]
async fn a_run_enters_by_hand_only_as_a_well_formed_pending_one() {
    let mut hand = Hand::new().await;
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
        hand.refused(&text).await;
    }
    for (column, value) in [
        (", lease_token", ", gen_random_uuid()"),
        (", assigned_worker_id", ", 'w'"),
        (", finished_at", ", now()"),
        (", result", ", ''::bytea"),
    ] {
        hand.refused(&inserted(column, value)).await;
    }
    assert!(hand.does(&inserted("", "")).await);
    assert_eq!(hand.lease().await.record.attempt, 1, "it is a run like any other");
    hand.done().await;
}

#[tokio::test]
async fn a_schedule_has_one_run_per_instant_whether_the_first_is_live_or_finished() {
    let mut hand = Hand::new().await;
    let at = "timestamptz '2026-01-31 09:30:00+00'";
    let run = inserted(", job_definition_id, scheduled_for", &format!(", 'd', {at}"));
    assert!(hand.does(&run).await);
    hand.refused(&run).await;
    hand.end(&hand.lease().await, Outcome::DONE).await;
    hand.refused(&run).await;
    let instant: Timestamp = "2026-01-31T09:30:00Z".parse().expect("an instant");
    let again = NewTask::new("t").job_definition_id("d").scheduled_for(instant);
    let answers = hand.store.enqueue_batch(vec![again]).await.expect("the store answers");
    assert!(
        answers[0].as_ref().expect("it is answered").existing,
        "Weaver finds the one that was put in by hand"
    );
    for text in [
        "DELETE FROM weaver.schedule_keys",
        "UPDATE weaver.schedule_keys SET run_id = 99",
        "TRUNCATE weaver.schedule_keys",
    ] {
        hand.refused(text).await;
    }
    let keyed = inserted(", idempotency_key", ", 'k'");
    assert!(hand.does(&keyed).await);
    hand.refused(&keyed).await;
    hand.done().await;
}
