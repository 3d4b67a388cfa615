//! A check reads every item, names those that cannot be read, and changes nothing.

mod support;

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use support::seed::SeedClient;
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{
    Admin, Beat, DocumentKey, Documents, Expect, QueueSettings, RunnerKey, Runners, Tasks,
};
use weaver_core::quarantine::{CheckReport, RecordKind};
use weaver_core::queue::Queue;
use weaver_core::task::{ContentType, NewTask};
use weaver_core::time::Timestamp;
use weaver_dynamodb::db::AwsDb;
use weaver_dynamodb::{DynamoOptions, DynamoStore, check_records};
use weaver_runtime::SystemClock;

struct Database {
    db: Arc<AwsDb>,
    seed: SeedClient,
    store: DynamoStore,
}

/// Three tasks, one with a large payload, and one record of every other kind.
async fn filled() -> Database {
    let database = support::database();
    let db = Arc::new(support::connect(&database).await);
    let store = DynamoStore::new(db.clone(), Arc::new(SystemClock::new()), DynamoOptions::default());
    let large = NewTask::new("t").payload(vec![b'x'; 5000], ContentType::other("text/plain"));
    let tasks = vec![NewTask::new("t"), NewTask::new("t").serial_key("b"), large];
    store.enqueue_batch(tasks).await.expect("the store answers");
    let (namespace, queue) = (Namespace::default(), QueueName::new("mail").expect("a name"));
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
    Database { db, seed: SeedClient::new(&database), store }
}

impl Database {
    async fn check(&self) -> CheckReport {
        check_records(&self.db, &|_| true, &|_, _| Ok(())).await.expect("the store answers")
    }

    /// Changes one attribute of an item by hand.
    async fn set(&self, table: &str, key: [(&str, &str); 2], name: &str, value: AttributeValue) {
        let mut request = self.seed.0.update_item().table_name(table);
        for (name, value) in key {
            request = request.key(name, AttributeValue::S(value.to_owned()));
        }
        let request = request.update_expression("SET #n = :v").expression_attribute_names("#n", name);
        request.expression_attribute_values(":v", value).send().await.expect("the item is there");
    }
}

fn counts(report: &CheckReport) -> (u64, u64, u64, u64) {
    (report.tasks, report.queues, report.runners, report.documents)
}

#[tokio::test]
async fn every_item_of_a_sound_store_is_read_and_none_is_named() {
    let database = filled().await;
    database.seed.put_task("theirs", "task-001", "QUEUED", &[]).await;
    let report = database.check().await;
    assert_eq!(counts(&report), (4, 1, 1, 2), "{report:?}");
    assert!(report.is_clean(), "{report:?}");
}

#[tokio::test]
async fn each_bad_item_is_named_with_its_kind_and_place_and_stays_as_it_is() {
    let database = filled().await;
    let ids = database.store.resolve(&Namespace::default(), &["1".to_owned()]).await;
    assert!(ids.is_ok(), "the store is there");
    let query = weaver_core::ports::TaskQuery::new(Namespace::default());
    let tasks = database.store.list_tasks(query).await.expect("the store answers").items;
    let serial = tasks.iter().find(|task| task.spec.serial_key.is_some()).expect("one has a key");
    let id = serial.key.id.to_string();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let task = [("namespace", "default"), ("task_id", id.as_str())];
    database.set("pm-runner-queue", task, "spec", text("{")).await;
    let runner = [("namespace", "default"), ("runner_id", "w")];
    database.set("pm-runner-runners", runner, "last_heartbeat", text("yesterday")).await;
    database.set("pm-runner-runners", runner, "last_heartbeat_us", text("yesterday")).await;
    let queue = [("pk", "queue\u{1f}default"), ("sk", "mail")];
    database.set("weaver-data", queue, "max_running", AttributeValue::N("-1".to_owned())).await;
    let note = [("pk", "doc\u{1f}default\u{1f}note"), ("sk", "nightly")];
    database.set("weaver-data", note, "body", text("no bytes")).await;

    let report = database.check().await;
    assert_eq!(counts(&report), (3, 1, 1, 2), "{report:?}");
    let mut found = report.unreadable.clone();
    found.sort_by_key(|found| found.kind);
    use RecordKind::{Document, QueueSettings as Settings, Runner, Task};
    let kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [Task, Settings, Runner, Document], "{report:?}");
    assert_eq!((found[0].id.as_str(), found[0].serial_key.as_deref()), (id.as_str(), Some("b")));
    assert_eq!((found[1].id.as_str(), found[2].id.as_str()), ("mail", "w"));
    assert_eq!(found[3].id, "note/nightly");
    let again = database.check().await;
    assert_eq!(again.unreadable.len(), 4, "a check changes nothing");
}

#[tokio::test]
async fn an_item_of_a_newer_format_is_named_by_its_clients_id() {
    let database = filled().await;
    database.seed.put_task("theirs", "task-001", "QUEUED", &[]).await;
    let task = [("namespace", "theirs"), ("task_id", "task-001")];
    database.set("pm-runner-queue", task, "format", AttributeValue::N("99".to_owned())).await;
    let report = database.check().await;
    let named: Vec<_> = report.unreadable.iter().map(ToString::to_string).collect();
    let said =
        "task theirs/task-001 (QUEUED): it has format 99; this version of Weaver reads formats up to 1";
    assert_eq!(named, [said]);
}

#[tokio::test]
async fn documents_are_checked_by_the_reader_of_their_kind() {
    let database = filled().await;
    let reads = |kind: &str, _: &[u8]| match kind {
        "job_definition" => Err("it is not a schedule".to_owned()),
        _ => Ok(()),
    };
    let report = check_records(&database.db, &|_| true, &reads).await.expect("the store answers");
    let named: Vec<_> = report.unreadable.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        ["document default/job_definition/nightly: it cannot be decoded: it is not a schedule"],
        "{report:?}"
    );
}
