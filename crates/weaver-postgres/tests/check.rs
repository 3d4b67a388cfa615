//! `check` reads every record, names those that cannot be read, and changes nothing.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sqlx::{Connection, PgConnection};
use support::{Schema, past_guards};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::ports::{Admin, Beat, DocumentKey, Documents, Expect, QueueSettings, RunnerKey, Runners};
use weaver_core::prelude::*;
use weaver_core::quarantine::{CheckReport, RecordKind};
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;
use weaver_runtime::SystemClock;

/// Writes with the guards disabled.
async fn by_hand(schema: &Schema, statement: &str) {
    let mut foreign = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let statements = schema.sql(&past_guards(statement));
    sqlx::raw_sql(statements).execute(&mut foreign).await.expect("the statement is right");
}

async fn filled(schema: &Schema) -> PostgresStore {
    let clock = Arc::new(SystemClock::new());
    let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
    let task = |serial: &'static str| NewTask::new("t").serial_key(serial);
    store.enqueue_batch(vec![task("a"), task("b"), task("c")]).await.expect("the store answers");
    finish_one(&store).await;
    let namespace = Namespace::default();
    let queue = QueueName::new("mail").expect("a name");
    let settings = QueueSettings { paused: false, max_running: Some(3), ..QueueSettings::default() };
    store.put_queue(&namespace, &queue, settings, Expect::Anything).await.expect("the store answers");
    let runner_id = WorkerId::new("w").expect("a name");
    let beat = Beat {
        key: RunnerKey { namespace: namespace.clone(), runner_id },
        project_root: None,
        started_at: Timestamp::default(),
        queues: vec![QueueName::default()],
        types: None,
        capacity: 1,
        running: 0,
        draining: false,

        every: None,
    };
    store.beat(vec![beat]).await.expect("the store answers");
    for kind in ["job_definition", "note"] {
        let key = DocumentKey::new(namespace.clone(), kind, "nightly");
        let body = Bytes::from_static(b"{}");
        store.put_document(&key, body, Expect::Anything, None).await.expect("the store answers");
    }
    store
}

async fn finish_one(store: &PostgresStore) {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(1));
    let leased = store.lease(request).await.expect("the store answers").remove(0);
    let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
    let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
    store.commit(vec![end], None).await.expect("the store answers");
}

async fn check(store: &PostgresStore) -> CheckReport {
    store.check(&|_| true, &|_, _| Ok(())).await.expect("the store answers")
}

fn counts(report: &CheckReport) -> (u64, u64, u64, u64) {
    (report.tasks, report.queues, report.runners, report.documents)
}

#[tokio::test]
async fn every_record_of_a_sound_store_is_read_and_none_is_named() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    let report = check(&store).await;
    assert_eq!(counts(&report), (3, 1, 1, 2));
    assert!(report.is_clean() && !report.is_cut_short, "{report:?}");
}

#[tokio::test]
async fn each_bad_record_is_reported_with_its_kind_and_key_and_stays_unchanged() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    by_hand(&schema, "UPDATE weaver.tasks SET labels = '7' WHERE serial_key = 'b'").await;
    by_hand(
        &schema,
        "UPDATE weaver.tasks SET retry = '\"sometimes\"' WHERE id IN (SELECT id FROM weaver.ended)",
    )
    .await;
    by_hand(&schema, "UPDATE weaver.queues SET max_running = -1").await;
    by_hand(&schema, "UPDATE weaver.runners SET queues = ARRAY['']").await;
    by_hand(&schema, "UPDATE weaver.documents SET namespace = ''").await;
    let report = check(&store).await;
    assert_eq!(counts(&report), (3, 1, 1, 2));
    let kinds: Vec<_> = report.unreadable.iter().map(|found| found.kind).collect();
    use RecordKind::{Document, QueueSettings as Settings, Runner, Task};
    assert_eq!(kinds, [Task, Task, Settings, Runner, Document], "{report:?}");
    assert!(report.is_damaged());
    let [ended, live, settings, runner, document] = &report.unreadable[..] else { panic!("{report:?}") };
    assert_eq!((live.namespace.as_str(), live.state.as_deref()), ("default", Some("PENDING")));
    assert_eq!((live.serial_key.as_deref(), live.holds_slot), (Some("b"), false));
    assert!(live.reason.to_string().contains("invalid type"), "{live}");
    assert_eq!((ended.state.as_deref(), ended.holds_nothing()), (Some("SUCCEEDED"), true));
    assert_eq!((settings.id.as_str(), runner.id.as_str()), ("mail", "w"));
    assert_eq!((document.namespace.as_str(), document.id.as_str()), ("", "note/nightly"));
    assert_eq!(check(&store).await, report, "a check changes nothing");
}

/// The three tasks of `filled` by their serial keys: `a` has ended, the others wait.
const PLACED: [(&str, &str); 8] = [
    (
        "DELETE FROM weaver.ready w WHERE w.serial_key = 'b'",
        "it is in none of the tables ready, leases and ended",
    ),
    ("DELETE FROM weaver.ended", "it is in none of the tables ready, leases and ended"),
    (
        "INSERT INTO weaver.ended (id, finished_at, version, attempt, state, namespace, queue) \
         SELECT id, now(), 9, 1, 6, namespace, queue FROM weaver.ready w WHERE w.serial_key = 'b'",
        "both waiting and ended",
    ),
    (
        "{lease} SELECT id, id, ARRAY[id], {rest} FROM weaver.ready w WHERE w.serial_key = 'b'",
        "both waiting and leased",
    ),
    ("{lease} SELECT id, id, ARRAY[id], {rest} FROM weaver.ended w", "both leased and ended"),
    (
        "{lease} SELECT id, id, ARRAY[id], {rest} FROM weaver.ready w, generate_series(1, 2) WHERE \
        w.serial_key = 'b'; \
         DELETE FROM weaver.ready w WHERE w.serial_key = 'b'",
        "in two leases",
    ),
    ("DELETE FROM weaver.tasks s WHERE s.serial_key = 'b'", "waiting without a row in tasks"),
    ("DELETE FROM weaver.tasks s WHERE s.serial_key = 'a'", "ended without a row in tasks"),
];

fn placing(statement: &str) -> String {
    let lease = "INSERT INTO weaver.leases (first_id, last_id, ids, version, attempt, executions, \
        renewals, failures, \
                 losses, format, state, is_shared, namespace, queue, updated_at, assigned_at, \
                 assigned_epoch, worker)";
    // Assigned: the state that needs no token.
    statement
        .replace("{lease}", lease)
        .replace("{rest}", "2, 1, 0, 0, 0, 0, 1, 2, false, namespace, queue, now(), now(), 1, 'w'")
}

#[tokio::test]
async fn a_task_in_none_or_in_two_of_the_tables_is_found() {
    for (statement, problem) in PLACED {
        let schema = Schema::new();
        let store = filled(&schema).await;
        by_hand(&schema, &placing(statement)).await;
        let report = check(&store).await;
        let reasons: Vec<_> = report.unreadable.iter().map(|found| found.reason.to_string()).collect();
        assert_eq!(reasons, [format!("it cannot be decoded: {problem}")], "{statement}");
        assert!(report.is_damaged() && report.unreadable[0].kind == RecordKind::Task, "{statement}");
        schema.drop(store.pool()).await;
    }
}

#[tokio::test]
async fn a_transition_that_leaves_its_task_in_two_tables_or_in_none_fails_at_its_commit() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    let moved = "INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, \
        count_queues, \
                 count_states, count_deltas) SELECT now(), ARRAY[id], ARRAY['default'], ARRAY[9], \
                 ARRAY[4], '{}', '{}', \
                 '{}', '{}' FROM weaver.tasks s WHERE s.serial_key IN ('a', 'b')";
    for (statement, _) in &PLACED[..6] {
        let mut foreign = PgConnection::connect(schema.server_url()).await.expect("the server answers");
        let text = format!("BEGIN; {}; {moved}", past_guards(&placing(statement)));
        sqlx::raw_sql(schema.sql(&text)).execute(&mut foreign).await.expect("it is checked at the commit");
        let refused = sqlx::raw_sql(schema.sql("COMMIT")).execute(&mut foreign).await.expect_err(statement);
        assert!(refused.to_string().contains("of ready, leases and ended"), "{statement}: {refused}");
    }
    assert!(check(&store).await.is_clean());
    let mut foreign = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    sqlx::raw_sql(schema.sql(moved)).execute(&mut foreign).await.expect("each is in one place");
    schema.drop(store.pool()).await;
}

#[tokio::test]
async fn documents_are_checked_by_the_reader_of_their_kind() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    let reads = |kind: &str, body: &[u8]| match kind {
        "job_definition" => Err(format!("{} bytes are no schedule", body.len())),
        _ => Ok(()),
    };
    let report = store.check(&|_| true, &reads).await.expect("the store answers");
    assert_eq!(report.unreadable.len(), 1, "{report:?}");
    let text = report.unreadable[0].to_string();
    assert_eq!(
        text,
        "document default/job_definition/nightly: it cannot be decoded: 2 bytes are no schedule"
    );
}

#[tokio::test]
async fn more_records_than_a_page_are_read_once_each_and_a_check_can_be_ended() {
    let schema = Schema::new();
    let store = filled(&schema).await;
    for namespace in ["b", "a"] {
        let tasks = (0..600).map(|_| NewTask::new("t").namespace(namespace)).collect();
        store.enqueue_batch(tasks).await.expect("the store answers");
    }
    let reported = AtomicU64::new(0);
    let watch = |count: u64| {
        reported.store(count, Ordering::Relaxed);
        true
    };
    let report = store.check(&watch, &|_, _| Ok(())).await.expect("the store answers");
    assert_eq!((report.tasks, reported.load(Ordering::Relaxed)), (1203, report.records()));
    let report = store.check(&|count| count < 10, &|_, _| Ok(())).await.expect("the store answers");
    assert!(report.is_cut_short && report.tasks < 1203, "{report:?}");
}
