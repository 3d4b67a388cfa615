//! One validation: the JSON API and plain SQL accept the same tasks and store them alike.

mod cases;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cases::{Case, cases};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection};
use support::Schema;
use weaver_api as wire;
use weaver_core::limits::Limits;
use weaver_core::prelude::*;
use weaver_core::task::{ContentType, Start, TaskSpec, ValidTask};
use weaver_postgres::PostgresStore;

/// The case through the JSON API: its own types, then core.
fn by_json(case: &Case) -> Result<ValidTask, String> {
    let mut body = case.options.clone();
    body.insert("task_type".to_owned(), json!(case.task_type));
    body.insert("queue".to_owned(), json!(case.queue));
    body.insert("namespace".to_owned(), json!(case.namespace));
    body.insert("priority".to_owned(), json!(case.priority));
    body.insert("payload".to_owned(), case.payload.clone());
    case.run_at.map(|at| body.insert("run_at".to_owned(), json!(at)));
    case.delay_ms.map(|delay| body.insert("delay_ms".to_owned(), json!(delay)));
    let text = Value::Object(body).to_string();
    let task: wire::NewTask = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let task = NewTask::try_from(task).map_err(|error| error.to_string())?;
    let valid = task.validate(&Limits::default()).map_err(|error| error.to_string())?;
    match valid.spec.envelope.task_type.is_reserved() || valid.namespace.is_reserved() {
        true => Err("reserved".to_owned()),
        false => Ok(valid),
    }
}

/// A store, and a connection that enqueues by SQL.
struct Both {
    schema: Schema,
    store: PostgresStore,
    connection: PgConnection,
}

impl Both {
    async fn new() -> Self {
        let schema = Schema::new();
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(schema.options(), clock).await.expect("the schema can be made");
        let connection = PgConnection::connect(schema.server_url()).await.expect("the server answers");
        Self { schema, store, connection }
    }

    async fn by_sql(&mut self, case: &Case) -> Result<TaskRecord, String> {
        let text = "SELECT weaver.enqueue($1, $2::text::jsonb, queue => $3, namespace => $4, priority => $5, \
             run_at => $6::text::timestamptz, delay => $7::bigint * interval '1 millisecond', options => $8::text::jsonb)";
        let id: Result<i64, sqlx::Error> = sqlx::query_scalar(self.schema.sql(text))
            .bind(&case.task_type)
            .bind(case.payload.to_string())
            .bind(&case.queue)
            .bind(&case.namespace)
            .bind(case.priority)
            .bind(case.run_at)
            .bind(case.delay_ms)
            .bind(Value::Object(case.options.clone()).to_string())
            .fetch_one(&mut self.connection)
            .await;
        match id {
            Ok(id) => {
                let namespace = Namespace::new(case.namespace.clone()).expect("it was accepted");
                let key = TaskKey::new(namespace, TaskId(id.unsigned_abs()));
                Ok(self.store.get_task(&key).await.expect("what was accepted can be read"))
            }
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("22023") => {
                Err(error.message().to_owned())
            }
            Err(error) => panic!("{case:?}: {error}"),
        }
    }

    async fn refused(&mut self, options: Value) -> String {
        let Value::Object(options) = options else { panic!("{options}") };
        self.by_sql(&Case { options, ..plain() }).await.expect_err("it is refused")
    }
}

fn plain() -> Case {
    Case {
        task_type: "t".to_owned(),
        queue: "default".to_owned(),
        namespace: "default".to_owned(),
        priority: 5,
        run_at: None,
        delay_ms: None,
        payload: Value::Null,
        options: Map::new(),
    }
}

/// Payloads are compared as JSON: the server writes it in its own way.
fn comparable(spec: &TaskSpec) -> (TaskSpec, Option<Value>) {
    let mut spec = spec.clone();
    let is_json = spec.envelope.content_type == ContentType::JSON;
    let payload = is_json.then(|| serde_json::from_slice(&spec.envelope.payload).expect("it is JSON"));
    if payload.is_some() {
        spec.envelope.payload = bytes::Bytes::new();
    }
    (spec, payload)
}

#[test]
fn random_tasks_get_the_same_verdict_from_json_and_sql_and_become_the_same() {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let both = std::cell::RefCell::new(runtime.block_on(Both::new()));
    let (accepted, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let seen = TestRunner::new(config).run(&cases(), |mut case| {
        if case.namespace == "t" {
            // A separate namespace: unique keys must not collide with those of other cases.
            case.namespace = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        }
        // JSON and SQL format a payload that is not a string differently as text.
        let is_text = matches!(case.options.get("content_type"), Some(Value::String(_)));
        if is_text && case.payload.is_object() {
            case.payload = json!("text");
        }
        let by_json = by_json(&case);
        let by_sql = runtime.block_on(both.borrow_mut().by_sql(&case));
        match (by_json, by_sql) {
            (Ok(valid), Ok(record)) => {
                accepted.set(accepted.get() + 1);
                prop_assert_eq!(comparable(&valid.spec), comparable(&record.spec));
                prop_assert_eq!(&valid.namespace, &record.key.namespace);
                let expected = match valid.start {
                    Start::At(at) => at.max(record.created_at),
                    Start::After(delay) => record.created_at.saturating_add(delay),
                    Start::Now => record.created_at,
                };
                prop_assert_eq!(record.ready_at, expected);
            }
            (Err(_), Err(_)) => refused.set(refused.get() + 1),
            (json, sql) => prop_assert!(false, "JSON: {json:?}\nSQL: {sql:?}"),
        }
        Ok(())
    });
    seen.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        accepted.get() > 100 && refused.get() > 100,
        "{} accepted, {} refused",
        accepted.get(),
        refused.get()
    );
    runtime.block_on(async {
        let both = both.into_inner();
        both.schema.drop(both.store.pool()).await;
    });
}

#[tokio::test]
async fn a_refused_option_is_named_with_its_value_its_limit_and_the_known_options() {
    let mut both = Both::new().await;
    for (options, words) in [
        (json!({"max_attempts": 20000}), &["max_attempts", "20000", "between 1 and 10000"][..]),
        (json!({"max_attempts": 0}), &["max_attempts", "0", "between 1 and 10000"]),
        (json!({"serial_key": ""}), &["serial_key", "\"\"", "1 to 255 bytes"]),
        (json!({"serial_key": "x".repeat(300)}), &["serial_key", "300 bytes", "1 to 255 bytes"]),
        (json!({"labels": {"a": 5}}), &["labels.a", "5", "text"]),
        (json!({"retry": {"kind": "linear"}}), &["retry.kind", "linear", "none, fixed, exponential"]),
        (json!({"retry": {"kind": "fixed"}}), &["retry.delay_ms", "missing"]),
        (json!({"timeout_ms": 0}), &["timeout_ms", "0", "between 1 and 31622400000"]),
        (json!({"expires_at": "tomorrow"}), &["expires_at", "tomorrow", "2026-01-31T09:30:00Z"]),
        (json!({"max_attemps": 5}), &["options", "max_attemps", "max_attempts", "timeout_ms", "trace"]),
        (json!({"queue": "mail"}), &["options", "queue is an argument of"]),
    ] {
        let said = both.refused(options.clone()).await;
        assert!(words.iter().all(|word| said.contains(word)), "{options}: {said}");
    }
    for (case, words) in [
        (Case { task_type: "weaver.check".to_owned(), ..plain() }, ["task_type", "weaver.check"]),
        (Case { namespace: "weaver.internal".to_owned(), ..plain() }, ["namespace", "weaver.internal"]),
        (Case { priority: 11, ..plain() }, ["priority is 11", "between 0 and 9"]),
        (Case { payload: json!("x".repeat(1024 * 1024)), ..plain() }, ["payload", "at most 1048576 bytes"]),
    ] {
        let said = both.by_sql(&case).await.expect_err("it is refused");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    both.schema.drop(both.store.pool()).await;
}

#[tokio::test]
async fn a_prompt_enqueued_by_sql_runs_once_and_in_its_sessions_turn() {
    let mut both = Both::new().await;
    let Value::Object(options) = json!({"session_id": "s", "timeout_ms": 1500}) else { panic!("an object") };
    let open = Case { task_type: "prompt".to_owned(), options, ..plain() };
    let record = both.by_sql(&open).await.expect("it is valid");
    assert!(record.spec.runs_once());
    assert_eq!(record.spec.serial_key.as_ref().map(|key| key.as_str()), Some("s"));
    assert_eq!(record.spec.timeout, Some(std::time::Duration::from_millis(1500)));
    let Value::Object(options) = json!({"session_id": "s", "max_attempts": 3, "serial_key": "k"}) else {
        panic!("an object")
    };
    let asked = both.by_sql(&Case { options, ..open }).await.expect("it is valid");
    assert_eq!((asked.spec.max_attempts, asked.spec.max_losses), (3, 0));
    assert_eq!(asked.spec.serial_key.as_ref().map(|key| key.as_str()), Some("k"));
    both.schema.drop(both.store.pool()).await;
}
