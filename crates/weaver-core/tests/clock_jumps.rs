//! The in-memory store while the wall clock jumps.

use std::sync::Arc;

use weaver_core::clock::ManualClock;
use weaver_core::ports::Store;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_testkit::clock_jumps;

fn store() -> (ManualClock, Arc<dyn Store>) {
    let clock = ManualClock::default();
    (clock.clone(), Arc::new(InMemoryQueue::new(Arc::new(clock))))
}

#[tokio::test]
async fn spans_last_as_promised_when_the_clock_is_set_back_in_memory() {
    let (clock, store) = store();
    clock_jumps::spans_last_as_promised(clock, store, ManualClock::set_back).await;
}

#[tokio::test]
async fn spans_last_as_promised_when_the_clock_is_set_forward_in_memory() {
    let (clock, store) = store();
    clock_jumps::spans_last_as_promised(clock, store, ManualClock::set_forward).await;
}

#[tokio::test]
async fn instants_follow_the_wall_clock_in_memory() {
    let (clock, store) = store();
    clock_jumps::instants_follow_the_wall_clock(clock, store).await;
}

#[tokio::test]
async fn stamps_never_go_back_in_memory() {
    let (clock, store) = store();
    clock_jumps::stamps_never_go_back(clock, store).await;
}

#[tokio::test]
async fn a_due_task_wakes_a_waiter_whenever_the_clock_moves_in_memory() {
    let open = |clock| Arc::new(InMemoryQueue::new(clock)) as Arc<dyn Store>;
    clock_jumps::a_due_task_wakes_a_waiter_whenever_the_clock_moves(open).await;
}
