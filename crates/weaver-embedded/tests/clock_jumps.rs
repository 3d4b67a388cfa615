//! The embedded store while the wall clock is set, open and closed.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::Scratch;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::lifecycle::OverdueReason;
use weaver_core::ports::Store;
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_testkit::clock_jumps::{self, HOUR, lease};

fn open(scratch: &Scratch, clock: &ManualClock) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(scratch.path(), Arc::new(clock.clone())).expect("it opens"))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test]
async fn spans_last_as_promised_whichever_way_the_clock_is_set() {
    for set in [ManualClock::set_back, ManualClock::set_forward] {
        let (scratch, clock) = (Scratch::new(), ManualClock::default());
        clock_jumps::spans_last_as_promised(clock.clone(), open(&scratch, &clock), set).await;
    }
}

#[tokio::test]
async fn instants_follow_the_wall_clock() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    clock_jumps::instants_follow_the_wall_clock(clock.clone(), open(&scratch, &clock)).await;
}

#[tokio::test]
async fn stamps_never_go_back() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    clock_jumps::stamps_never_go_back(clock.clone(), open(&scratch, &clock)).await;
}

#[tokio::test]
async fn a_due_task_wakes_a_waiter_whenever_the_clock_moves() {
    let scratch = Scratch::new();
    let directories = AtomicUsize::new(0);
    let open = |clock| {
        let directory = scratch.path().join(directories.fetch_add(1, Ordering::Relaxed).to_string());
        Arc::new(EmbeddedStore::open(directory, clock).expect("it opens")) as Arc<dyn Store>
    };
    clock_jumps::a_due_task_wakes_a_waiter_whenever_the_clock_moves(open).await;
}

#[tokio::test]
async fn a_clock_set_back_while_the_store_was_closed_delays_nothing_and_moves_no_stamp_back() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch, &clock);
    let delayed = store.enqueue(NewTask::new("delayed").delay(seconds(6))).await.expect("stored").key;
    let before = store.get_task(&delayed).await.expect("there");
    drop(store);
    clock.set_back(HOUR);
    let store = open(&scratch, &clock);
    let key = store.enqueue(NewTask::new("t")).await.expect("stored").key;
    assert!(store.get_task(&key).await.expect("there").created_at >= before.created_at);
    assert_eq!(lease(&store, 1).await.len(), 1, "an immediate task is due at once");
    clock.advance(seconds(6));
    assert_eq!(lease(&store, 2).await[0].lease.key, delayed, "a delay lasts no longer than promised");
}

#[tokio::test]
async fn a_run_at_is_still_an_instant_after_the_store_was_opened_again() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch, &clock);
    let at = clock.now().saturating_add(HOUR);
    store.enqueue(NewTask::new("appointed").run_at(at)).await.expect("stored");
    drop(store);
    let store = open(&scratch, &clock);
    clock.set_forward(HOUR);
    assert_eq!(lease(&store, 1).await.len(), 1);
}

#[tokio::test]
async fn the_time_a_store_was_closed_counts_as_time_that_passed() {
    let (scratch, clock) = (Scratch::new(), ManualClock::default());
    let store = open(&scratch, &clock);
    store.enqueue(NewTask::new("delayed").delay(HOUR)).await.expect("stored");
    drop(store);
    clock.advance(HOUR);
    assert_eq!(lease(&open(&scratch, &clock), 1).await.len(), 1);
}

#[tokio::test]
async fn a_lease_found_at_open_lasts_one_ttl_more() {
    for set in [ManualClock::set_back, ManualClock::set_forward] {
        let (scratch, clock) = (Scratch::new(), ManualClock::default());
        let store = open(&scratch, &clock);
        store.enqueue(NewTask::new("t")).await.expect("stored");
        let leased = lease(&store, 1).await.remove(0);
        drop(store);
        set(&clock, HOUR);
        let store = open(&scratch, &clock);
        clock.advance(seconds(20) - Duration::from_micros(1));
        assert!(store.overdue(10).await.expect("it answers").is_empty());
        clock.advance(Duration::from_micros(1));
        let overdue = store.overdue(10).await.expect("it answers");
        assert_eq!((overdue.len(), overdue[0].reason), (1, OverdueReason::Lease));
        assert_eq!(overdue[0].record.key, leased.lease.key);
    }
}
