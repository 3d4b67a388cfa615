//! Work for what is due, not for what exists: calls of the store, counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use weaver_core::ports::{DocumentWrite, Expect, Store};
use weaver_scheduler::Scheduler;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

use crate::bed::{Bed, cases, every, scheduler, seconds};
use crate::stores::Place;

cases![
    an_idle_tick_is_two_calls_however_many_definitions_there_are,
    a_tick_that_fires_a_thousand_is_a_bounded_number_of_calls,
];

type Calls = Arc<std::sync::Mutex<BTreeMap<&'static str, usize>>>;

fn counting(bed: &Bed) -> (Scheduler, Calls) {
    let calls = Calls::default();
    let count = Arc::clone(&calls);
    let plan = move |site: &CallSite| {
        *count.lock().expect("nobody panics here").entry(site.method).or_default() += 1;
        Fault::None
    };
    let clock = Arc::new(bed.clock.clone());
    let store: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(&bed.store), clock.clone(), plan));
    (scheduler(store, clock, "counting"), calls)
}

/// Many definitions like one, as if each had been added.
async fn add_many(bed: &Bed, count: usize, span: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _turn = ONE_AT_A_TIME.lock().await;
    bed.add("model", every(span)).await;
    let key = weaver_core::ports::DocumentKey::new(bed.space.clone(), "job_definition", "model");
    let model = bed.store.get_document(&key).await.expect("the store answers").expect("it is there");
    let body: Bytes = model.body.clone();
    let numbers: Vec<usize> = (1..count).collect();
    for chunk in numbers.chunks(1000) {
        let put = |number: &usize| {
            let mut key = key.clone();
            key.id = format!("d{number:05}");
            DocumentWrite::put(key, body.clone(), Expect::Absent, model.due)
        };
        let answers = bed.store.write_documents(chunk.iter().map(put).collect()).await;
        assert!(answers.expect("the batch is valid").iter().all(Result::is_ok));
    }
}

async fn an_idle_tick_is_two_calls_however_many_definitions_there_are(bed: Bed) {
    // DynamoDB Local writes some hundred a second: enough of them to show that it makes no difference.
    let count = if bed.place == Place::DynamoDb { 300 } else { 10_000 };
    add_many(&bed, count, "1h").await;
    let (scheduler, calls) = counting(&bed);
    for _ in 0..3 {
        bed.clock.advance(seconds(60));
        scheduler.tick().await.expect("the store answers");
        let counted = std::mem::take(&mut *calls.lock().expect("nobody panics here"));
        assert_eq!(counted, BTreeMap::from([("due_documents", 2)]));
    }
}

async fn a_tick_that_fires_a_thousand_is_a_bounded_number_of_calls(bed: Bed) {
    let (count, enqueues) = if bed.place == Place::DynamoDb { (50, 1) } else { (1000, 4) };
    add_many(&bed, count, "1h").await;
    let (scheduler, calls) = counting(&bed);
    bed.clock.advance(seconds(3600));
    let ticked = scheduler.tick().await.expect("the store answers");
    assert_eq!((ticked.runs, ticked.definitions), (count, count));
    let counted = std::mem::take(&mut *calls.lock().expect("nobody panics here"));
    let expected = [("due_documents", 3), ("enqueue_batch", enqueues), ("write_documents", 2)];
    assert_eq!(counted, BTreeMap::from(expected));
}
