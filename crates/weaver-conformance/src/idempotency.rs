//! G8, idempotent enqueue: a known idempotency key returns the first task as existing.

use weaver_core::outcome::Outcome;
use weaver_core::ports::PurgeRule;
use weaver_core::task::NewTask;

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task};

const DAY_S: u64 = 24 * 3600;

async fn the_same_key_returns_the_first_task_and_says_so(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    let again = harness.enqueue_or_find(keyed()).await;
    assert_eq!((again.key, again.existing), (key, true));
    assert_eq!(harness.total("default").await, 1);
}

async fn enqueuing_a_key_again_does_not_change_the_first_task(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    let before = harness.record(&key).await;
    harness.advance(seconds(5)).await;
    let other = keyed().queue("mail").priority(0).delay(seconds(9)).label("a", "b");
    assert!(harness.enqueue_or_find(other).await.existing);
    assert_eq!(harness.record(&key).await, before);
}

async fn two_members_of_a_batch_with_one_key_make_one_task(harness: Harness) {
    let batch = vec![keyed(), task(), keyed()];
    let answers = harness.store.enqueue_batch(batch).await.expect("the batch is valid");
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("stored")).collect();
    let existing: Vec<_> = answers.iter().map(|answer| answer.existing).collect();
    assert_eq!(existing, [false, false, true]);
    assert_eq!(answers[0].key, answers[2].key);
    assert_ne!(answers[0].key, answers[1].key);
    assert_eq!(harness.total("default").await, 2);
}

async fn another_key_makes_another_task(harness: Harness) {
    harness.enqueue(keyed()).await;
    harness.enqueue(task().idempotency_key("K")).await;
    assert_eq!(harness.total("default").await, 2);
}

async fn a_key_in_another_queue_is_the_same_key(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    assert_eq!(harness.enqueue_or_find(keyed().queue("mail")).await.key, key);
}

async fn a_key_in_another_namespace_is_another_key(harness: Harness) {
    let here = harness.enqueue(keyed()).await;
    let there = harness.enqueue(keyed().namespace("b")).await;
    assert_ne!(here, there);
    assert_eq!(harness.enqueue_or_find(keyed().namespace("b")).await.key, there);
    assert_eq!(harness.enqueue_or_find(keyed()).await.key, here);
}

async fn a_task_that_has_ended_is_still_the_answer(harness: Harness) {
    for (number, outcome) in [Outcome::DONE, Outcome::fatal("no")].into_iter().enumerate() {
        let asked = || task().idempotency_key(format!("key {number}"));
        let key = harness.enqueue(asked()).await;
        finish_only(&harness, outcome).await;
        let again = harness.enqueue_or_find(asked()).await;
        assert_eq!((again.key, again.existing), (key, true));
    }
    assert!(harness.lease(1).await.is_empty());
}

async fn a_key_is_remembered_for_a_week(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    finish_only(&harness, Outcome::DONE).await;
    harness.advance(seconds(7 * DAY_S - 1)).await;
    let again = harness.enqueue_or_find(keyed()).await;
    assert_eq!((again.key, again.existing), (key, true));
}

async fn a_key_outlives_the_record_that_was_purged(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    finish_only(&harness, Outcome::DONE).await;
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: seconds(0) };
    assert_eq!(harness.store.purge_tasks(rule, 10).await.expect("the rule is valid").count, 1);
    assert_eq!(harness.find(&key).await, None);
    let again = harness.enqueue_or_find(keyed()).await;
    assert_eq!((again.key, again.existing), (key, true));
}

async fn an_idempotency_key_expires(harness: Harness) {
    let key = harness.enqueue(keyed()).await;
    finish_only(&harness, Outcome::DONE).await;
    // Longer than the lifetime of the key, and than the default retention of finished tasks.
    harness.advance(seconds(40 * DAY_S)).await;
    let fresh = harness.enqueue(keyed()).await;
    assert_ne!(fresh, key);
    assert_eq!(harness.lease_keys(10).await, [fresh]);
}

async fn a_forgotten_key_counts_from_its_new_task(harness: Harness) {
    harness.enqueue(keyed()).await;
    finish_only(&harness, Outcome::DONE).await;
    harness.advance(seconds(40 * DAY_S)).await;
    let fresh = harness.enqueue(keyed()).await;
    harness.advance(seconds(6 * DAY_S)).await;
    assert_eq!(harness.enqueue_or_find(keyed()).await.key, fresh);
}

async fn a_refused_batch_uses_up_no_key(harness: Harness) {
    let batch = vec![keyed(), task().queue("")];
    assert!(harness.store.enqueue_batch(batch).await.is_err());
    harness.enqueue(keyed()).await;
}

async fn a_schedule_runs_once_per_planned_instant(harness: Harness) {
    let planned = harness.now().await;
    let run = || task().job_definition_id("nightly").scheduled_for(planned);
    let key = harness.enqueue(run()).await;
    let again = harness.enqueue_or_find(run()).await;
    assert_eq!((again.key, again.existing), (key, true));
}

async fn another_schedule_another_instant_or_no_instant_is_another_run(harness: Harness) {
    let planned = harness.now().await;
    let run = || task().job_definition_id("nightly").scheduled_for(planned);
    harness.enqueue(run()).await;
    harness.enqueue(run().job_definition_id("weekly")).await;
    harness.enqueue(run().scheduled_for(planned.saturating_add(seconds(60)))).await;
    harness.enqueue(run().namespace("b")).await;
    harness.enqueue(task().job_definition_id("nightly")).await;
    harness.enqueue(task().job_definition_id("nightly")).await;
}

async fn either_of_two_unique_keys_finds_the_task(harness: Harness) {
    let planned = harness.now().await;
    let key = harness.enqueue(keyed().job_definition_id("nightly").scheduled_for(planned)).await;
    let by_schedule = task().job_definition_id("nightly").scheduled_for(planned);
    assert_eq!(harness.enqueue_or_find(by_schedule).await.key, key);
    assert_eq!(harness.enqueue_or_find(keyed()).await.key, key);
}

async fn concurrent_enqueues_of_one_key_make_exactly_one_task(harness: Harness) {
    let spawned: Vec<_> = (0..16)
        .map(|_| {
            let other = harness.clone();
            harness.spawn(async move { other.enqueue_or_find(keyed()).await })
        })
        .collect();
    let mut answers = Vec::new();
    for handle in spawned {
        answers.push(handle.await.expect("no panic"));
    }
    assert_eq!(answers.iter().filter(|answer| !answer.existing).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.key == answers[0].key), "{answers:?}");
    assert_eq!(harness.total("default").await, 1);
}

fn keyed() -> NewTask {
    task().idempotency_key("k")
}

async fn finish_only(harness: &Harness, outcome: Outcome) {
    let leased = harness.lease_one().await;
    harness.end(&leased, outcome).await;
}

cases![
    the_same_key_returns_the_first_task_and_says_so,
    enqueuing_a_key_again_does_not_change_the_first_task,
    two_members_of_a_batch_with_one_key_make_one_task,
    another_key_makes_another_task,
    a_key_in_another_queue_is_the_same_key,
    a_key_in_another_namespace_is_another_key,
    a_task_that_has_ended_is_still_the_answer,
    a_key_is_remembered_for_a_week,
    a_key_outlives_the_record_that_was_purged,
    an_idempotency_key_expires,
    a_forgotten_key_counts_from_its_new_task,
    a_refused_batch_uses_up_no_key,
    a_schedule_runs_once_per_planned_instant,
    another_schedule_another_instant_or_no_instant_is_another_run,
    either_of_two_unique_keys_finds_the_task,
    concurrent_enqueues_of_one_key_make_exactly_one_task,
];
