//! The cost of a tick depends on what is due, not on what exists: calls to the store are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use weaver_core::ports::{DocumentWrite, Expect, Store};
use weaver_scheduler::Scheduler;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::harness::{Harness, cases, every, scheduler, seconds};
use crate::stores::Place;

cases![
    an_idle_tick_is_two_calls_however_many_schedules_there_are,
    a_tick_that_fires_a_thousand_is_a_bounded_number_of_calls,
];

type Calls = Arc<std::sync::Mutex<BTreeMap<&'static str, usize>>>;

fn counting(harness: &Harness) -> (Scheduler, Calls) {
    let calls = Calls::default();
    let count = Arc::clone(&calls);
    let plan = move |site: &CallSite| {
        *count.lock().expect("no thread panics while holding it").entry(site.method).or_default() += 1;
        Fault::None
    };
    let clock = Arc::new(harness.clock.clone());
    let store: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(&harness.store), clock.clone(), plan));
    (scheduler(store, clock, "counting"), calls)
}

/// Many copies of one schedule, as if each had been added.
async fn add_many(harness: &Harness, count: usize, span: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _turn = ONE_AT_A_TIME.lock().await;
    harness.add("model", every(span)).await;
    let key = weaver_core::ports::DocumentKey::new(harness.space.clone(), "job_definition", "model");
    let model = harness.store.get_document(&key).await.expect("the store answers").expect("it is there");
    let body: Bytes = model.body.clone();
    let numbers: Vec<usize> = (1..count).collect();
    for chunk in numbers.chunks(1000) {
        let put = |number: &usize| {
            let mut key = key.clone();
            key.id = format!("d{number:05}");
            DocumentWrite::put(key, body.clone(), Expect::Absent, model.due)
        };
        let answers = harness.store.write_documents(chunk.iter().map(put).collect()).await;
        assert!(answers.expect("the batch is valid").iter().all(Result::is_ok));
    }
}

async fn an_idle_tick_is_two_calls_however_many_schedules_there_are(harness: Harness) {
    // DynamoDB Local writes some hundred a second: enough to show that the number makes no difference.
    let count = if harness.place == Place::DynamoDb { 300 } else { 10_000 };
    add_many(&harness, count, "1h").await;
    let (scheduler, calls) = counting(&harness);
    for _ in 0..3 {
        harness.clock.advance(seconds(60));
        scheduler.tick().await.expect("the store answers");
        let counted = std::mem::take(&mut *calls.lock().expect("no thread panics while holding it"));
        assert_eq!(counted, BTreeMap::from([("due_documents", 2)]));
    }
}

async fn a_tick_that_fires_a_thousand_is_a_bounded_number_of_calls(harness: Harness) {
    let (count, enqueues) = if harness.place == Place::DynamoDb { (50, 1) } else { (1000, 4) };
    add_many(&harness, count, "1h").await;
    let (scheduler, calls) = counting(&harness);
    harness.clock.advance(seconds(3600));
    let ticked = scheduler.tick().await.expect("the store answers");
    assert_eq!((ticked.runs, ticked.definitions), (count, count));
    let counted = std::mem::take(&mut *calls.lock().expect("no thread panics while holding it"));
    let expected = [("due_documents", 3), ("enqueue_batch", enqueues), ("write_documents", 2)];
    assert_eq!(counted, BTreeMap::from(expected));
}
