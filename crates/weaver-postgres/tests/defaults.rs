//! Defaults on PostgreSQL: of tasks from plain SQL, of rows without a retry policy, and of retention.

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sqlx::{Executor, Row};
use support::Schema;
use weaver_core::id::TaskId;
use weaver_core::limits::RETENTION_DEFAULT;
use weaver_core::prelude::*;
use weaver_core::task::TaskSpec;
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, Worker};

async fn open(schema: &Schema) -> Arc<PostgresStore> {
    let opened = PostgresStore::open(schema.options(), Arc::new(SystemClock::new())).await;
    Arc::new(opened.unwrap_or_else(|error| panic!("{error}")))
}

async fn spec_of(store: &PostgresStore, id: i64) -> TaskSpec {
    let key = TaskKey::new(Namespace::default(), TaskId(id.unsigned_abs()));
    (*store.get_task(&key).await.expect("the task is there").spec).clone()
}

#[tokio::test]
async fn a_task_from_sql_has_the_defaults_of_its_type() {
    let schema = Schema::new();
    let store = open(&schema).await;
    let cases = [
        ("mail", json!({}), NewTask::new("mail")),
        ("mail", json!({ "session_id": "s" }), NewTask::new("mail").session_id("s")),
        ("prompt", json!({ "session_id": "s" }), NewTask::new("prompt").session_id("s")),
        (
            "prompt",
            json!({ "session_id": "s", "serial_key": "k" }),
            NewTask::new("prompt").session_id("s").serial_key("k"),
        ),
        ("prompt", json!({ "max_attempts": 5, "max_losses": null }), NewTask::new("prompt").max_attempts(5)),
        (
            "mail",
            json!({ "retry": { "kind": "fixed", "delay_ms": 5 }, "max_losses": 0 }),
            NewTask::new("mail").retry(RetryPolicy::Fixed { delay: Duration::from_millis(5) }).max_losses(0),
        ),
    ];
    for (task_type, options, same) in cases {
        let text = schema.sql("SELECT weaver.enqueue($1, options => $2::text::jsonb)");
        let query = sqlx::query(text).bind(task_type).bind(options.to_string());
        let id: i64 = query.fetch_one(store.pool()).await.expect("it is valid").get(0);
        let same = store.enqueue(same).await.expect("it is valid").key.id;
        let (by_sql, by_library) = (spec_of(&store, id).await, spec_of(&store, same.0 as i64).await);
        assert_eq!(by_sql, by_library, "{task_type} {options}");
    }
    let plain = schema.sql("SELECT weaver.enqueue('mail')");
    let id: i64 = sqlx::query(plain).fetch_one(store.pool()).await.expect("it is valid").get(0);
    let same = store.enqueue(NewTask::new("mail")).await.expect("it is valid").key.id;
    assert_eq!(spec_of(&store, id).await, spec_of(&store, same.0 as i64).await);
    schema.drop(store.pool()).await;
}

#[tokio::test]
async fn a_row_without_a_policy_has_the_one_of_the_schema_and_any_other_is_stored() {
    let schema = Schema::new();
    let store = open(&schema).await;
    // Rows of the first version keep this meaning, whatever core's default becomes.
    let unsaid = RetryPolicy::Exponential {
        base: Duration::from_secs(15),
        factor: 16,
        cap: Duration::from_secs(8 * 3600),
        jitter: true,
    };
    let other = RetryPolicy::Fixed { delay: Duration::from_secs(1) };
    let tasks =
        vec![NewTask::new("t").retry(unsaid), NewTask::new("t").retry(other), NewTask::new("t").retry(other)];
    for tasks in [tasks.clone(), tasks[..1].to_vec(), tasks[1..].to_vec()] {
        for (task, stored) in
            tasks.iter().zip(store.enqueue_batch(tasks.clone()).await.expect("they are valid"))
        {
            let id = stored.expect("it is stored").key.id.0 as i64;
            let text = schema.sql("SELECT retry IS NULL FROM weaver.tasks WHERE id = $1");
            let is_null: bool =
                sqlx::query_scalar(text).bind(id).fetch_one(store.pool()).await.expect("it is there");
            let retry = spec_of(&store, id).await.retry;
            assert_eq!(is_null, retry == unsaid, "{task:?}");
            assert!(retry == unsaid || retry == other);
        }
    }
    schema.drop(store.pool()).await;
}

async fn greet(name: String, _ctx: Ctx) -> Result<String, TaskError> {
    Ok(format!("hello, {name}"))
}

/// The setup of the library guide, without a retention setting.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn the_documented_set_up_purges_finished_tasks_after_thirty_days() {
    let schema = Schema::new();
    let store = open(&schema).await;
    let start: Timestamp = "2030-01-01T00:00:00Z".parse().expect("it is an instant");
    schema.stop_clock(store.pool(), start).await;
    let set_clock = |at: Timestamp| {
        let text = schema.sql(&format!("UPDATE weaver.test_clock SET at = '{at}'"));
        async { store.pool().execute(text).await.expect("the clock can be moved") }
    };
    let work = || {
        let registry = Registry::new().handle("greet", greet).expect("it is a name");
        let source = Arc::new(LocalSource::new(store.clone()));
        let worker = Worker::builder(source, Arc::new(SystemClock::new())).registry(registry).build();
        let shutdown = Shutdown::new();
        (tokio::spawn(worker.expect("well described").run(shutdown.clone())), shutdown)
    };
    let (working, shutdown) = work();
    let key = store.enqueue(NewTask::new("greet").json("Ada").expect("JSON")).await.expect("it is valid").key;
    until(&store, &key, |found| found.is_some_and(|task| task.state == TaskState::Succeeded)).await;
    shutdown.request();
    working.await.expect("it ends");

    // A worker purges when it starts, and then once a minute.
    set_clock(start.saturating_add(RETENTION_DEFAULT - Duration::from_secs(60))).await;
    let (working, shutdown) = work();
    let second =
        store.enqueue(NewTask::new("greet").json("Bob").expect("JSON")).await.expect("it is valid").key;
    until(&store, &second, |found| found.is_some_and(|task| task.state == TaskState::Succeeded)).await;
    shutdown.request();
    working.await.expect("it ends");
    assert!(store.get_task(&key).await.is_ok(), "a task is kept for thirty days");

    set_clock(start.saturating_add(RETENTION_DEFAULT + Duration::from_secs(60))).await;
    let (working, shutdown) = work();
    until(&store, &key, |found| found.is_none()).await;
    assert!(store.get_task(&second).await.is_ok(), "a younger one stays");
    shutdown.request();
    working.await.expect("it ends");
    schema.drop(store.pool()).await;
}

async fn until(store: &PostgresStore, key: &TaskKey, is_so: impl Fn(Option<TaskRecord>) -> bool) {
    let holds = async {
        while !is_so(store.get_task(key).await.ok()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), holds).await.expect("it happens");
}
