//! Unreadable items: cases that only DynamoDB has, and the requests they cost.

mod support;

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::clock::ManualClock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::ports::{Tasks, UnreadableRecords};
use weaver_core::quarantine::Discarded;
use weaver_core::queue::{Queue, QueueExt};
use weaver_core::task::NewTask;
use weaver_dynamodb::DynamoStore;
use weaver_dynamodb::db::{Db, Write};
use weaver_testkit::harness::CorruptedRecord;

async fn lease(store: &DynamoStore, token: u128, max: u32) -> Vec<Leased> {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("the store answers")
}

#[tokio::test]
async fn an_attribute_of_the_wrong_type_fails_one_claim_only_until_it_is_fixed() {
    let database = support::database();
    let clock = ManualClock::default();
    let store = support::open(&database, Arc::new(clock.clone())).await;
    let (one, other) = (
        store.enqueue(NewTask::new("t")).await.expect("stored").key,
        store.enqueue(NewTask::new("t")).await.expect("stored").key,
    );
    let db = support::connect(&database).await;
    let (table, key, _) = support::place_of(&CorruptedRecord::Task(one.clone()));
    let set = |value: AttributeValue| {
        Write::update(table, key.clone(), "SET #attempt = :value")
            .name("#attempt", "attempt")
            .value(":value", value)
    };
    // The claim increments this attribute.
    let _ = db.write(set(AttributeValue::S("x".to_owned()))).await.expect("written");
    let leased = lease(&store, 1, 5).await;
    assert_eq!(leased.iter().map(|each| &each.lease.key).collect::<Vec<_>>(), [&other]);
    assert_eq!(store.list_quarantined(None, None, 10).await.expect("a list").items.len(), 1);
    let _ = db.write(set(AttributeValue::N("0".to_owned()))).await.expect("written");
    clock.advance(std::time::Duration::from_secs(60));
    store.overdue(10).await.expect("the store answers");
    assert_eq!(store.list_quarantined(None, None, 10).await.expect("a list").items, []);
    assert_eq!(lease(&store, 2, 5).await.len(), 1);
}

#[tokio::test]
async fn inspecting_unreadable_records_makes_the_documented_requests() {
    let store = support::open(&support::database(), Arc::new(ManualClock::default())).await;
    let key = store.enqueue(NewTask::new("t")).await.expect("stored").key;
    let since = |before: weaver_dynamodb::db::Usage| {
        let count = |name: &str| store.usage().of(name) - before.of(name);
        ["GetItem", "Query", "TransactWriteItems", "BatchGetItem"].map(count)
    };
    let before = store.usage();
    store.list_quarantined(None, None, 10).await.expect("a list");
    store.find_quarantined(std::slice::from_ref(&key)).await.expect("an answer");
    assert_eq!(since(before), [0, 0, 0, 0]);
    let before = store.usage();
    let raw = store.raw_task(&key).await.expect("an answer").expect("it is stored");
    assert_eq!(since(before), [1, 0, 0, 0]);
    let before = store.usage();
    assert_eq!(store.discard_task(&key, &raw).await.expect("an answer"), Discarded::Removed);
    // Its item; its large values and its streams.
    assert_eq!(since(before), [1, 2, 1, 0]);
    assert_eq!(store.get_tasks(&[key]).await.expect("an answer"), [None]);
}
