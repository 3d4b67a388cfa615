//! G10, events: every transition is published after it is stored, in order per task; a gap is announced,
//! never silent.

use std::collections::BTreeMap;

use weaver_core::event::{Change, ChangeCursor, Changes};
use weaver_core::id::{Epoch, TaskKey};
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, OrphanCause};
use weaver_core::outcome::Outcome;
use weaver_core::queue::Committed;
use weaver_core::task::{NewTask, Progress, TaskState};

use super::cases;
use super::waiter::Waiter;
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn the_life_of_a_task_is_published_in_order(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let key = harness.enqueue(task()).await;
    for outcome in [Outcome::Released, Outcome::DONE] {
        let leased = harness.lease_one().await;
        harness.end(&leased, outcome).await;
    }
    use TaskState::{Queued, RetryScheduled, Running, Succeeded};
    let expected = [(1, Queued), (2, Running), (3, RetryScheduled), (4, Running), (5, Succeeded)];
    assert_eq!(story(&harness, start, &key).await, expected);
}

async fn a_scheduled_task_run_early_and_cancelled_is_published(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let key = harness.enqueue(task().delay(seconds(60))).await;
    harness.apply(&key, Command::RunNow).await;
    harness.cancel(&key).await;
    use TaskState::{Cancelled, Scheduled};
    assert_eq!(story(&harness, start, &key).await, [(1, Scheduled), (2, Scheduled), (3, Cancelled)]);
}

async fn an_assignment_orphaned_and_expired_is_published(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let expires_at = harness.now().await.saturating_add(seconds(10));
    let key = harness.enqueue(task().expires_at(expires_at)).await;
    harness.apply(&key, Command::Assign { worker: worker("v"), epoch: Epoch(1) }).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    harness.advance(seconds(11)).await;
    harness.maintain().await;
    use TaskState::{Assigned, Cancelled, Orphaned, Queued};
    let expected = [(1, Queued), (2, Assigned), (3, Orphaned), (4, Cancelled)];
    assert_eq!(story(&harness, start, &key).await, expected);
}

async fn losses_until_death_are_published(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let key = harness.enqueue(task().max_losses(1)).await;
    for _ in 0..2 {
        harness.lease_one().await;
        harness.lose().await;
    }
    use TaskState::{Dead, Queued, RetryScheduled, Running};
    let expected = [(1, Queued), (2, Running), (3, RetryScheduled), (4, Running), (5, Dead)];
    assert_eq!(story(&harness, start, &key).await, expected);
}

async fn a_change_has_its_time_and_namespace(harness: Harness) {
    let start = end_of_stream(&harness).await;
    harness.advance(seconds(5)).await;
    let here = harness.enqueue(task()).await;
    let there = harness.enqueue(task().namespace("b")).await;
    let (changes, _) = read(&harness, start).await;
    let of: BTreeMap<_, _> = changes.iter().map(|change| (change.key.clone(), change.at)).collect();
    let now = harness.now().await;
    assert_eq!(of, BTreeMap::from([(here, now), (there, now)]));
}

async fn every_member_of_a_batch_is_published(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let enqueued = harness.enqueue_all(vec![task(); 20]).await;
    harness.lease(20).await;
    for key in &enqueued {
        let expected = [(1, TaskState::Queued), (2, TaskState::Running)];
        assert_eq!(story(&harness, start, key).await, expected);
    }
}

async fn refused_and_repeated_calls_are_not_published(harness: Harness) {
    let keyed = || -> NewTask { task().idempotency_key("k") };
    let key = harness.enqueue(keyed()).await;
    let leased = harness.lease_one().await;
    harness.succeed(&leased).await;
    let start = end_of_stream(&harness).await;
    assert!(harness.enqueue_or_find(keyed()).await.existing);
    assert_eq!(harness.finish(&leased, Outcome::DONE).await, Committed::AlreadyApplied);
    assert_eq!(harness.finish(&leased, Outcome::failed("no")).await, Committed::Stale);
    assert_eq!(story(&harness, start, &key).await, []);
}

async fn renewals_and_the_end_of_a_hold_publish_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let start = end_of_stream(&harness).await;
    let progress = Some(Progress { fraction: 0.5, message: "half".into() });
    assert_eq!(harness.renew(&leased.lease).await, Renewed::Extended);
    let reporting = Renewal { progress, ..Renewal::of(leased.lease.clone()) };
    assert_eq!(harness.renew_with(reporting).await, Renewed::Extended);
    assert_eq!(story(&harness, start, &key).await, []);
    harness.cancel(&key).await;
    harness.confirm(&leased.lease).await;
    assert_eq!(story(&harness, start, &key).await, [(3, TaskState::Cancelled)]);
}

async fn reading_from_nowhere_starts_at_the_end(harness: Harness) {
    harness.enqueue(task()).await;
    let start = end_of_stream(&harness).await;
    let key = harness.enqueue(task()).await;
    let (changes, _) = read(&harness, start).await;
    let published: Vec<_> = changes.into_iter().map(|change| change.key).collect();
    assert_eq!(published, [key]);
}

async fn a_cursor_continues_exactly_where_it_stopped(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let first = harness.enqueue(task()).await;
    let (changes, cursor) = read(&harness, start).await;
    assert_eq!(changes.into_iter().map(|change| change.key).collect::<Vec<_>>(), [first]);
    assert!(read(&harness, cursor).await.0.is_empty());
    let second = harness.enqueue(task()).await;
    let (changes, _) = read(&harness, cursor).await;
    assert_eq!(changes.into_iter().map(|change| change.key).collect::<Vec<_>>(), [second]);
}

async fn a_cursor_survives_its_text_form_and_can_be_read_again(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let key = harness.enqueue(task()).await;
    let copied: ChangeCursor = start.to_string().parse().expect("it is a cursor");
    for cursor in [start, copied, start] {
        assert_eq!(story(&harness, cursor, &key).await, [(1, TaskState::Queued)]);
    }
}

async fn a_read_returns_at_most_its_limit_and_skips_nothing(harness: Harness) {
    let mut cursor = end_of_stream(&harness).await;
    let enqueued = harness.enqueue_all(vec![task(); 25]).await;
    let mut published = Vec::new();
    loop {
        let (items, next) = next_page(&harness, cursor, 4).await;
        assert!(items.len() <= 4);
        if items.is_empty() {
            break;
        }
        published.extend(items.into_iter().map(|change| change.key));
        cursor = next;
    }
    published.sort();
    published.dedup();
    assert_eq!(published, enqueued);
}

async fn a_cursor_of_another_store_incarnation_means_resync(harness: Harness) {
    harness.enqueue(task()).await;
    let here = end_of_stream(&harness).await;
    let foreign = ChangeCursor { incarnation: here.incarnation ^ 1, ..here };
    let answer = harness.store.changes(Some(foreign), 10).await.expect("the store answers");
    let Changes::Resync { next } = answer else { panic!("{answer:?}") };
    let key = harness.enqueue(task()).await;
    assert_eq!(story(&harness, next, &key).await, [(1, TaskState::Queued)]);
}

async fn a_reader_far_behind_misses_no_change_or_gets_a_resync(harness: Harness) {
    let mut cursor = end_of_stream(&harness).await;
    let batch = harness.store.limits().max_batch.min(10_000);
    // More than the change log of the in-memory store; fewer where batches are small, because each task is a
    // request there.
    let count = 7 * batch * batch / 10_000;
    harness.enqueue_all(vec![task(); count]).await;
    let mut published = 0;
    loop {
        match harness.store.changes(Some(cursor), 1000).await.expect("the store answers") {
            // The change log no longer has all of it, and the store says so.
            Changes::Resync { .. } => return,
            Changes::Next { items, .. } if items.is_empty() => break,
            Changes::Next { items, next } => {
                published += items.len();
                cursor = next;
            }
        }
    }
    assert!(published >= count, "{published} changes and no word of the others");
}

async fn a_reader_waits_for_the_next_change(harness: Harness) {
    let start = end_of_stream(&harness).await;
    let mut waiter = Waiter::for_changes(&harness, start);
    assert!(waiter.still_waits().await);
    harness.enqueue(task().namespace("b").delay(seconds(60))).await;
    waiter.wakes().await;
}

async fn a_reader_that_is_behind_does_not_wait(harness: Harness) {
    let start = end_of_stream(&harness).await;
    harness.enqueue(task()).await;
    Waiter::for_changes(&harness, start).wakes().await;
}

async fn every_reader_is_woken(harness: Harness) {
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let start = end_of_stream(&harness).await;
    let mut waiters: Vec<_> = (0..3).map(|_| Waiter::for_changes(&harness, start)).collect();
    for waiter in &mut waiters {
        assert!(waiter.still_waits().await);
    }
    harness.succeed(&leased).await;
    for waiter in waiters {
        waiter.wakes().await;
    }
}

async fn a_reader_of_another_store_incarnation_does_not_wait(harness: Harness) {
    let here = end_of_stream(&harness).await;
    let foreign = ChangeCursor { incarnation: here.incarnation ^ 1, ..here };
    Waiter::for_changes(&harness, foreign).wakes().await;
}

async fn end_of_stream(harness: &Harness) -> ChangeCursor {
    match harness.store.changes(None, 10).await.expect("the store answers") {
        Changes::Next { items, next } => {
            assert_eq!(items, [], "the end has nothing after it");
            next
        }
        Changes::Resync { next } => next,
    }
}

async fn next_page(harness: &Harness, after: ChangeCursor, limit: u32) -> (Vec<Change>, ChangeCursor) {
    match harness.store.changes(Some(after), limit).await.expect("the store answers") {
        Changes::Next { items, next } => (items, next),
        Changes::Resync { .. } => panic!("nothing was lost: no need to resync"),
    }
}

/// All changes after a cursor, deduplicated: delivery is at-least-once.
async fn read(harness: &Harness, mut after: ChangeCursor) -> (Vec<Change>, ChangeCursor) {
    let mut changes: Vec<Change> = Vec::new();
    loop {
        let (items, next) = next_page(harness, after, 100).await;
        if items.is_empty() {
            return (changes, next);
        }
        for item in items {
            if !changes.iter().any(|seen| seen.key == item.key && seen.version == item.version) {
                changes.push(item);
            }
        }
        after = next;
    }
}

/// Changes of one task after a cursor.
async fn story(harness: &Harness, after: ChangeCursor, key: &TaskKey) -> Vec<(u64, TaskState)> {
    let (changes, _) = read(harness, after).await;
    let of_it = changes.into_iter().filter(|change| change.key == *key);
    of_it.map(|change| (change.version.0, change.state)).collect()
}

cases![
    the_life_of_a_task_is_published_in_order,
    a_scheduled_task_run_early_and_cancelled_is_published,
    an_assignment_orphaned_and_expired_is_published,
    losses_until_death_are_published,
    a_change_has_its_time_and_namespace,
    every_member_of_a_batch_is_published,
    refused_and_repeated_calls_are_not_published,
    renewals_and_the_end_of_a_hold_publish_nothing,
    reading_from_nowhere_starts_at_the_end,
    a_cursor_continues_exactly_where_it_stopped,
    a_cursor_survives_its_text_form_and_can_be_read_again,
    a_read_returns_at_most_its_limit_and_skips_nothing,
    a_cursor_of_another_store_incarnation_means_resync,
    a_reader_far_behind_misses_no_change_or_gets_a_resync,
    a_reader_waits_for_the_next_change,
    a_reader_that_is_behind_does_not_wait,
    every_reader_is_woken,
    a_reader_of_another_store_incarnation_does_not_wait,
];
