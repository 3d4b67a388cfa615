//! G7, order: priority, then due time, then id, exactly; and no task is leased twice.

use std::collections::BTreeSet;
use std::time::Duration;

use weaver_core::id::{Epoch, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::{Command, Grant};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::task::NewTask;

use super::cases;
use super::steps::{keys, task_type};
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn the_most_urgent_goes_first(harness: Harness) {
    let tasks = [3, 9, 0, 5, 7, 1, 8, 2, 6, 4].map(|number| task().priority(number));
    harness.enqueue_all(tasks.to_vec()).await;
    let leased = harness.lease(10).await;
    let priorities: Vec<_> = leased.iter().map(|leased| leased.record.spec.priority.get()).collect();
    assert_eq!(priorities, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

async fn urgency_goes_before_waiting_time(harness: Harness) {
    let patient = harness.enqueue(task()).await;
    harness.advance(seconds(3600)).await;
    let urgent = harness.enqueue(task().priority(4)).await;
    assert_eq!(harness.lease_keys(2).await, [urgent, patient]);
}

async fn of_equal_urgency_the_one_that_was_due_first_goes_first(harness: Harness) {
    let later = harness.enqueue(task().delay(seconds(20))).await;
    let sooner = harness.enqueue(task().delay(seconds(10))).await;
    harness.advance(seconds(30)).await;
    let last = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [sooner, later, last]);
}

async fn of_those_due_at_one_instant_the_lowest_id_goes_first(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 50]).await;
    let mut leased = Vec::new();
    while leased.len() < 50 {
        let some = harness.lease_keys(7).await;
        assert!(!some.is_empty());
        leased.extend(some);
    }
    assert_eq!(leased, enqueued);
}

async fn a_delayed_task_is_ordered_by_its_due_time_not_by_its_age(harness: Harness) {
    let run_at = harness.now().await.saturating_add(seconds(10));
    let old = harness.enqueue(task().run_at(run_at)).await;
    harness.advance(seconds(5)).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(10)).await;
    let after = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [before, old, after]);
}

async fn a_retried_task_is_ordered_by_its_retry_time(harness: Harness) {
    let failed = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    harness.advance(seconds(5)).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(10)).await;
    let after = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [before, failed, after]);
}

async fn a_released_task_is_ordered_by_its_release_time(harness: Harness) {
    place_by_end(&harness, Outcome::Released).await;
}

async fn a_snoozed_task_is_ordered_by_its_new_time(harness: Harness) {
    place_by_end(&harness, Outcome::Snoozed { delay: Duration::ZERO }).await;
}

async fn a_lost_task_is_ordered_by_the_time_its_loss_was_recorded(harness: Harness) {
    let lost = harness.enqueue(task()).await;
    assert_eq!(harness.lease_one().await.lease.key, lost);
    harness.advance(seconds(10)).await;
    let before = harness.enqueue(task()).await;
    harness.lose().await;
    harness.advance(seconds(1)).await;
    let after = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [before, lost, after]);
}

async fn a_task_made_due_is_ordered_by_that_moment(harness: Harness) {
    let hurried = harness.enqueue(task().delay(seconds(3600))).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    harness.apply(&hurried, Command::RunNow).await;
    harness.advance(seconds(5)).await;
    let after = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [before, hurried, after]);
}

async fn a_due_task_made_due_again_keeps_its_place(harness: Harness) {
    let hurried = harness.enqueue(task().delay(seconds(5))).await;
    harness.advance(seconds(10)).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    harness.apply(&hurried, Command::RunNow).await;
    assert_eq!(harness.lease_keys(3).await, [hurried, before]);
}

async fn a_task_that_was_assigned_and_released_takes_its_place_by_its_release(harness: Harness) {
    let first = harness.enqueue(task()).await;
    harness.apply(&first, Command::Assign { worker: worker("v"), epoch: Epoch(1) }).await;
    let grant = Grant { worker: worker("v"), token: harness.token(), ttl: seconds(30) };
    harness.apply(&first, Command::Start(grant)).await;
    harness.advance(seconds(5)).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    let lease = harness.record(&first).await.current_lease().expect("it runs");
    harness.apply(&first, Command::Finish { lease, outcome: Outcome::Released }).await;
    assert_eq!(harness.lease_keys(3).await, [before, first]);
}

async fn a_task_unblocked_by_its_serial_key_is_ordered_by_its_own_due_time(harness: Harness) {
    let keyed = harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(5)).await;
    let later = harness.enqueue_all(vec![task(); 2]).await;
    harness.succeed(&leased).await;
    let expected = [keyed[1].clone(), later[0].clone(), later[1].clone()];
    assert_eq!(harness.lease_keys(3).await, expected);
}

async fn a_task_released_at_the_instant_it_was_leased_is_ordered_by_id(harness: Harness) {
    let enqueued = harness.enqueue_all(vec![task(); 3]).await;
    let leased = harness.lease(2).await;
    harness.end(&leased[1], Outcome::Released).await;
    harness.end(&leased[0], Outcome::Released).await;
    assert_eq!(harness.lease_keys(3).await, enqueued);
}

async fn several_queues_are_one_order(harness: Harness) {
    let names = ["c", "a", "b", "a", "c", "b"];
    let mut expected = Vec::new();
    for name in names {
        expected.push(harness.enqueue(task().queue(name)).await);
        harness.advance(seconds(1)).await;
    }
    let urgent = harness.enqueue(task().queue("c").priority(0)).await;
    expected.insert(0, urgent);
    let leased = harness.lease_in("default", &["b", "c", "a"], 10).await;
    assert_eq!(keys(&leased), expected);
}

async fn only_the_requested_queues_are_served(harness: Harness) {
    let wanted = harness.enqueue(task().queue("a")).await;
    harness.enqueue(task().queue("b")).await;
    harness.enqueue(task()).await;
    assert_eq!(keys(&harness.lease_in("default", &["a", "none"], 10).await), [wanted]);
}

async fn a_queue_named_twice_in_a_lease_call_is_served_once(harness: Harness) {
    let expected = harness.enqueue_all(vec![task(); 5]).await;
    assert_eq!(keys(&harness.lease_in("default", &["default", "default"], 2).await), expected[..2]);
    assert_eq!(keys(&harness.lease_in("default", &["default", "default"], 10).await), expected[2..]);
}

async fn only_the_requested_types_are_served_in_order(harness: Harness) {
    let types = ["x", "y", "z", "x", "y", "z"];
    let enqueued = harness.enqueue_all(types.map(NewTask::new).to_vec()).await;
    let urgent = harness.enqueue(NewTask::new("z").priority(0)).await;
    let request = LeaseRequest {
        types: Some(vec![task_type("z"), task_type("none"), task_type("x")]),
        ..harness.request(10)
    };
    let pick = |index: usize| enqueued[index].clone();
    let expected = [urgent, pick(0), pick(2), pick(3), pick(5)];
    assert_eq!(keys(&harness.lease_as(request).await), expected);
    assert_eq!(harness.lease_keys(10).await, [pick(1), pick(4)]);
}

async fn no_types_at_all_means_no_tasks(harness: Harness) {
    harness.enqueue(task()).await;
    assert!(harness.lease_as(LeaseRequest { types: Some(vec![]), ..harness.request(10) }).await.is_empty());
}

async fn any_mix_of_urgency_and_time_is_served_in_exact_order(harness: Harness) {
    let mut state = 42_u64;
    let mut draw = |below: u64| {
        // Knuth's generator: the same mix every time.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut expected = Vec::new();
    for _ in 0..200 {
        let priority = u8::try_from(draw(10)).expect("below ten");
        let key = harness.enqueue(task().priority(priority).delay(seconds(draw(20)))).await;
        expected.push((priority, harness.record(&key).await.ready_at, key.id, key));
    }
    expected.sort();
    harness.advance(seconds(20)).await;
    let mut leased = Vec::new();
    while leased.len() < expected.len() {
        let some = harness.lease_keys(13).await;
        assert!(!some.is_empty());
        leased.extend(some);
    }
    let expected: Vec<_> = expected.into_iter().map(|(.., key)| key).collect();
    assert_eq!(leased, expected);
}

async fn concurrent_leasers_share_all_tasks_and_none_twice(harness: Harness) {
    let enqueued: BTreeSet<_> = harness.enqueue_all(vec![task(); 300]).await.into_iter().collect();
    let leasers: Vec<_> = (0..8)
        .map(|number| {
            let other = harness.clone();
            harness.spawn(async move { drain(&other, &format!("w{number}")).await })
        })
        .collect();
    let mut leased = drain(&harness, "w").await;
    for leaser in leasers {
        leased.extend(leaser.await.expect("no panic"));
    }
    // A concurrent lease call may find nothing; a later one finds the rest.
    leased.extend(drain(&harness, "last").await);
    assert_eq!(leased.len(), enqueued.len(), "a task was leased twice or not at all");
    assert_eq!(leased.into_iter().collect::<BTreeSet<_>>(), enqueued);
}

/// Leases until nothing is left.
async fn drain(harness: &Harness, name: &str) -> Vec<TaskKey> {
    let mut leased = Vec::new();
    loop {
        let some = harness.lease_as(LeaseRequest { worker: worker(name), ..harness.request(3) }).await;
        if some.is_empty() {
            return leased;
        }
        leased.extend(keys(&some));
    }
}

/// After this outcome a task is due at that time, behind tasks that became due in between.
async fn place_by_end(harness: &Harness, outcome: Outcome) {
    let first = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(5)).await;
    let before = harness.enqueue(task()).await;
    harness.advance(seconds(5)).await;
    harness.end(&leased, outcome).await;
    harness.advance(seconds(5)).await;
    let after = harness.enqueue(task()).await;
    assert_eq!(harness.lease_keys(3).await, [before, first, after]);
}

cases![
    the_most_urgent_goes_first,
    urgency_goes_before_waiting_time,
    of_equal_urgency_the_one_that_was_due_first_goes_first,
    of_those_due_at_one_instant_the_lowest_id_goes_first,
    a_delayed_task_is_ordered_by_its_due_time_not_by_its_age,
    a_retried_task_is_ordered_by_its_retry_time,
    a_released_task_is_ordered_by_its_release_time,
    a_snoozed_task_is_ordered_by_its_new_time,
    a_lost_task_is_ordered_by_the_time_its_loss_was_recorded,
    a_task_made_due_is_ordered_by_that_moment,
    a_due_task_made_due_again_keeps_its_place,
    a_task_that_was_assigned_and_released_takes_its_place_by_its_release,
    a_task_unblocked_by_its_serial_key_is_ordered_by_its_own_due_time,
    a_task_released_at_the_instant_it_was_leased_is_ordered_by_id,
    several_queues_are_one_order,
    only_the_requested_queues_are_served,
    a_queue_named_twice_in_a_lease_call_is_served_once,
    only_the_requested_types_are_served_in_order,
    no_types_at_all_means_no_tasks,
    any_mix_of_urgency_and_time_is_served_in_exact_order,
    concurrent_leasers_share_all_tasks_and_none_twice,
];
