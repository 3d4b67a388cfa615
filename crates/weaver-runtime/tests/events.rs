//! The stream of transitions, as a subscriber sees it.

use std::sync::Arc;

use futures_util::{FutureExt, Stream, StreamExt};
use weaver_core::clock::ManualClock;
use weaver_core::event::ChangeCursor;
use weaver_core::prelude::*;
use weaver_core::queue::memory::MemoryOptions;
use weaver_runtime::testing::TestQueue;
use weaver_runtime::{Event, EventAt, subscribe, subscribe_from};
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};

/// The events so far.
fn heard<S: Stream<Item = Result<T>> + Unpin, T>(stream: &mut S) -> Vec<T> {
    let next =
        || stream.next().now_or_never().map(|item| item.expect("it never ends").expect("the store answers"));
    std::iter::from_fn(next).collect()
}

fn moves(events: &[Event]) -> Vec<(u64, TaskState)> {
    let change = |event: &Event| match event {
        Event::Change(change) => (change.key.id.0, change.state),
        Event::Resync => panic!("nothing was missed"),
    };
    events.iter().map(change).collect()
}

async fn enqueue(queue: &TestQueue, count: usize) {
    queue.client().enqueue_batch(vec![NewTask::new("greet"); count]).await.expect("they are valid");
}

async fn cursor_after(queue: &TestQueue, events: usize) -> (Vec<EventAt>, ChangeCursor) {
    let mut stream = subscribe_from(queue.store(), None);
    heard(&mut stream);
    enqueue(queue, events).await;
    let items = heard(&mut stream);
    let cursor = items.last().expect("there was at least one").cursor;
    (items, cursor)
}

#[tokio::test]
async fn a_subscriber_gets_every_transition_after_its_start_in_order() {
    let queue = TestQueue::new();
    let mut stream = subscribe(queue.store());
    assert_eq!(heard(&mut stream), [Event::Resync], "earlier transitions are unknown");
    enqueue(&queue, 2).await;
    let key = queue.enqueued().await[0].key.clone();
    queue.store().cancel(&key).await.unwrap();
    let queued = TaskState::Queued;
    assert_eq!(moves(&heard(&mut stream)), [(1, queued), (2, queued), (1, TaskState::Cancelled)]);
    assert_eq!(heard(&mut stream), []);
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_by_a_transition() {
    let queue = TestQueue::new();
    let mut stream = subscribe(queue.store());
    assert_eq!(heard(&mut stream), [Event::Resync]);
    let (item, ()) = tokio::join!(stream.next(), enqueue(&queue, 1));
    assert_eq!(moves(&[item.unwrap().unwrap()]), [(1, TaskState::Queued)]);
}

#[tokio::test]
async fn transitions_before_the_first_poll_are_announced_as_a_gap() {
    let queue = TestQueue::new();
    let mut stream = subscribe(queue.store());
    enqueue(&queue, 1).await;
    assert_eq!(heard(&mut stream), [Event::Resync]);
}

#[tokio::test]
async fn a_slow_subscriber_gets_a_resync_and_delays_no_other() {
    let queue = TestQueue::with_options(MemoryOptions { change_log_capacity: 4, ..MemoryOptions::default() });
    let mut stream = subscribe(queue.store());
    assert_eq!(heard(&mut stream), [Event::Resync]);
    enqueue(&queue, 100).await;
    assert_eq!(heard(&mut stream), [Event::Resync]);
    enqueue(&queue, 1).await;
    assert_eq!(moves(&heard(&mut stream)), [(101, TaskState::Queued)]);
}

#[tokio::test]
async fn a_subscription_resumes_after_the_cursor_of_an_earlier_one() {
    let queue = TestQueue::new();
    let (_, cursor) = cursor_after(&queue, 3).await;
    enqueue(&queue, 1).await;
    let items = heard(&mut subscribe_from(queue.store(), Some(cursor)));
    let events: Vec<_> = items.into_iter().map(|item| item.event).collect();
    assert_eq!(moves(&events), [(4, TaskState::Queued)]);
}

#[tokio::test]
async fn resuming_in_the_middle_of_a_batch_skips_nothing() {
    let queue = TestQueue::new();
    let (items, _) = cursor_after(&queue, 3).await;
    for (index, item) in items.iter().enumerate() {
        let rest = heard(&mut subscribe_from(queue.store(), Some(item.cursor)));
        let missed: Vec<_> = items[index + 1..].iter().filter(|later| !rest.contains(later)).collect();
        assert_eq!(missed, Vec::<&EventAt>::new(), "after {index}");
    }
}

#[tokio::test]
async fn more_transitions_than_one_fetch_holds_all_arrive() {
    let queue = TestQueue::new();
    let (items, _) = cursor_after(&queue, 1000).await;
    assert_eq!(items.len(), 1000);
}

#[tokio::test]
async fn a_cursor_of_another_incarnation_of_the_store_is_a_gap() {
    let queue = TestQueue::new();
    let (_, cursor) = cursor_after(&queue, 1).await;
    let elsewhere = ChangeCursor { incarnation: cursor.incarnation.wrapping_add(1), ..cursor };
    let items = heard(&mut subscribe_from(queue.store(), Some(elsewhere)));
    assert_eq!(items, [EventAt { event: Event::Resync, cursor }]);
}

#[tokio::test]
async fn after_an_error_the_stream_resumes_and_skips_nothing() {
    let queue = TestQueue::new();
    let plan = |site: &CallSite| match site {
        CallSite { method: "changes", number: 2 } => Fault::FailAfter,
        _ => Fault::None,
    };
    let store = FaultyStore::new(queue.store(), Arc::new(ManualClock::default()), plan);
    let mut stream = subscribe(Arc::new(store));
    assert_eq!(stream.next().await, Some(Ok(Event::Resync)));
    enqueue(&queue, 1).await;
    assert!(matches!(stream.next().await, Some(Err(Error::Unavailable { .. }))));
    assert_eq!(moves(&heard(&mut stream)), [(1, TaskState::Queued)]);
}
