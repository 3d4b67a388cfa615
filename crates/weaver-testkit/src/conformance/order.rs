//! G7, order: priority, then when it became due, then id, exactly; and no task goes to two leasers.

use std::collections::BTreeSet;
use std::time::Duration;

use weaver_core::id::{Epoch, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::{Command, Grant};
use weaver_core::outcome::{Outcome, Retry};
use weaver_core::task::NewTask;

use super::cases;
use super::steps::{keys, task_type};
use crate::bed::{Bed, seconds, task, worker};

async fn the_most_urgent_goes_first(bed: Bed) {
    let tasks = [3, 9, 0, 5, 7, 1, 8, 2, 6, 4].map(|number| task().priority(number));
    bed.enqueue_all(tasks.to_vec()).await;
    let leased = bed.lease(10).await;
    let priorities: Vec<_> = leased.iter().map(|leased| leased.record.spec.priority.get()).collect();
    assert_eq!(priorities, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

async fn urgency_goes_before_waiting_time(bed: Bed) {
    let patient = bed.enqueue(task()).await;
    bed.advance(seconds(3600)).await;
    let urgent = bed.enqueue(task().priority(4)).await;
    assert_eq!(bed.lease_keys(2).await, [urgent, patient]);
}

async fn of_equal_urgency_the_one_that_was_due_first_goes_first(bed: Bed) {
    let later = bed.enqueue(task().delay(seconds(20))).await;
    let sooner = bed.enqueue(task().delay(seconds(10))).await;
    bed.advance(seconds(30)).await;
    let last = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [sooner, later, last]);
}

async fn of_those_due_at_one_instant_the_lowest_id_goes_first(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![task(); 50]).await;
    let mut leased = Vec::new();
    while leased.len() < 50 {
        let some = bed.lease_keys(7).await;
        assert!(!some.is_empty());
        leased.extend(some);
    }
    assert_eq!(leased, enqueued);
}

async fn a_delayed_task_takes_its_place_by_its_time_and_not_by_its_age(bed: Bed) {
    let run_at = bed.now().await.saturating_add(seconds(10));
    let old = bed.enqueue(task().run_at(run_at)).await;
    bed.advance(seconds(5)).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(10)).await;
    let after = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [before, old, after]);
}

async fn a_retried_task_takes_its_place_by_its_next_start(bed: Bed) {
    let failed = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.end(&leased, Outcome::Failed { error: "no".into(), retry: Retry::After(seconds(10)) }).await;
    bed.advance(seconds(5)).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(10)).await;
    let after = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [before, failed, after]);
}

async fn a_released_task_takes_its_place_by_its_release(bed: Bed) {
    place_by_end(&bed, Outcome::Released).await;
}

async fn a_snoozed_task_takes_its_place_by_its_new_time(bed: Bed) {
    place_by_end(&bed, Outcome::Snoozed { delay: Duration::ZERO }).await;
}

async fn a_lost_task_takes_its_place_by_the_discovery(bed: Bed) {
    let lost = bed.enqueue(task()).await;
    assert_eq!(bed.lease_one().await.lease.key, lost);
    bed.advance(seconds(10)).await;
    let before = bed.enqueue(task()).await;
    bed.lose().await;
    bed.advance(seconds(1)).await;
    let after = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [before, lost, after]);
}

async fn a_task_made_due_takes_its_place_by_that_moment(bed: Bed) {
    let hurried = bed.enqueue(task().delay(seconds(3600))).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(5)).await;
    bed.apply(&hurried, Command::RunNow).await;
    bed.advance(seconds(5)).await;
    let after = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [before, hurried, after]);
}

async fn a_due_task_made_due_again_keeps_its_place(bed: Bed) {
    let hurried = bed.enqueue(task().delay(seconds(5))).await;
    bed.advance(seconds(10)).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(5)).await;
    bed.apply(&hurried, Command::RunNow).await;
    assert_eq!(bed.lease_keys(3).await, [hurried, before]);
}

async fn a_task_that_was_assigned_and_released_takes_its_place_by_its_release(bed: Bed) {
    let first = bed.enqueue(task()).await;
    bed.apply(&first, Command::Assign { worker: worker("v"), epoch: Epoch(1) }).await;
    let grant = Grant { worker: worker("v"), token: bed.token(), ttl: seconds(30) };
    bed.apply(&first, Command::Start(grant)).await;
    bed.advance(seconds(5)).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(5)).await;
    let lease = bed.record(&first).await.current_lease().expect("it runs");
    bed.apply(&first, Command::Finish { lease, outcome: Outcome::Released }).await;
    assert_eq!(bed.lease_keys(3).await, [before, first]);
}

async fn a_task_freed_by_its_key_keeps_the_place_of_its_own_time(bed: Bed) {
    let keyed = bed.enqueue_all(vec![task().serial_key("k"); 2]).await;
    let leased = bed.lease_one().await;
    bed.advance(seconds(5)).await;
    let later = bed.enqueue_all(vec![task(); 2]).await;
    bed.succeed(&leased).await;
    let expected = [keyed[1].clone(), later[0].clone(), later[1].clone()];
    assert_eq!(bed.lease_keys(3).await, expected);
}

async fn a_task_released_at_the_instant_it_was_taken_goes_by_its_id(bed: Bed) {
    let enqueued = bed.enqueue_all(vec![task(); 3]).await;
    let leased = bed.lease(2).await;
    bed.end(&leased[1], Outcome::Released).await;
    bed.end(&leased[0], Outcome::Released).await;
    assert_eq!(bed.lease_keys(3).await, enqueued);
}

async fn several_queues_are_one_order(bed: Bed) {
    let names = ["c", "a", "b", "a", "c", "b"];
    let mut expected = Vec::new();
    for name in names {
        expected.push(bed.enqueue(task().queue(name)).await);
        bed.advance(seconds(1)).await;
    }
    let urgent = bed.enqueue(task().queue("c").priority(0)).await;
    expected.insert(0, urgent);
    let leased = bed.lease_in("default", &["b", "c", "a"], 10).await;
    assert_eq!(keys(&leased), expected);
}

async fn only_the_queues_that_were_asked_for_are_served(bed: Bed) {
    let wanted = bed.enqueue(task().queue("a")).await;
    bed.enqueue(task().queue("b")).await;
    bed.enqueue(task()).await;
    assert_eq!(keys(&bed.lease_in("default", &["a", "none"], 10).await), [wanted]);
}

async fn a_queue_that_is_asked_for_twice_is_served_once(bed: Bed) {
    let expected = bed.enqueue_all(vec![task(); 5]).await;
    assert_eq!(keys(&bed.lease_in("default", &["default", "default"], 2).await), expected[..2]);
    assert_eq!(keys(&bed.lease_in("default", &["default", "default"], 10).await), expected[2..]);
}

async fn only_the_types_that_were_asked_for_are_served_and_in_order(bed: Bed) {
    let types = ["x", "y", "z", "x", "y", "z"];
    let enqueued = bed.enqueue_all(types.map(NewTask::new).to_vec()).await;
    let urgent = bed.enqueue(NewTask::new("z").priority(0)).await;
    let request = LeaseRequest {
        types: Some(vec![task_type("z"), task_type("none"), task_type("x")]),
        ..bed.request(10)
    };
    let pick = |index: usize| enqueued[index].clone();
    let expected = [urgent, pick(0), pick(2), pick(3), pick(5)];
    assert_eq!(keys(&bed.lease_as(request).await), expected);
    assert_eq!(bed.lease_keys(10).await, [pick(1), pick(4)]);
}

async fn no_types_at_all_means_no_tasks(bed: Bed) {
    bed.enqueue(task()).await;
    assert!(bed.lease_as(LeaseRequest { types: Some(vec![]), ..bed.request(10) }).await.is_empty());
}

async fn any_mix_of_urgency_and_time_is_served_in_exact_order(bed: Bed) {
    let mut state = 42_u64;
    let mut draw = |below: u64| {
        // Knuth's generator: the same mix every time.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut expected = Vec::new();
    for _ in 0..200 {
        let priority = u8::try_from(draw(10)).expect("below ten");
        let key = bed.enqueue(task().priority(priority).delay(seconds(draw(20)))).await;
        expected.push((priority, bed.record(&key).await.ready_at, key.id, key));
    }
    expected.sort();
    bed.advance(seconds(20)).await;
    let mut leased = Vec::new();
    while leased.len() < expected.len() {
        let some = bed.lease_keys(13).await;
        assert!(!some.is_empty());
        leased.extend(some);
    }
    let expected: Vec<_> = expected.into_iter().map(|(.., key)| key).collect();
    assert_eq!(leased, expected);
}

async fn concurrent_leasers_share_all_tasks_and_none_twice(bed: Bed) {
    let enqueued: BTreeSet<_> = bed.enqueue_all(vec![task(); 300]).await.into_iter().collect();
    let leasers: Vec<_> = (0..8)
        .map(|number| {
            let other = bed.clone();
            bed.spawn(async move { drain(&other, &format!("w{number}")).await })
        })
        .collect();
    let mut leased = drain(&bed, "w").await;
    for leaser in leasers {
        leased.extend(leaser.await.expect("no panic"));
    }
    // A leaser may find nothing while others are at it; whoever comes afterwards finds what is left.
    leased.extend(drain(&bed, "last").await);
    assert_eq!(leased.len(), enqueued.len(), "a task was leased twice or not at all");
    assert_eq!(leased.into_iter().collect::<BTreeSet<_>>(), enqueued);
}

/// Leases until nothing comes.
async fn drain(bed: &Bed, name: &str) -> Vec<TaskKey> {
    let mut leased = Vec::new();
    loop {
        let some = bed.lease_as(LeaseRequest { worker: worker(name), ..bed.request(3) }).await;
        if some.is_empty() {
            return leased;
        }
        leased.extend(keys(&some));
    }
}

/// A task that ended so is due from then, behind what came in between.
async fn place_by_end(bed: &Bed, outcome: Outcome) {
    let first = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    bed.advance(seconds(5)).await;
    let before = bed.enqueue(task()).await;
    bed.advance(seconds(5)).await;
    bed.end(&leased, outcome).await;
    bed.advance(seconds(5)).await;
    let after = bed.enqueue(task()).await;
    assert_eq!(bed.lease_keys(3).await, [before, first, after]);
}

cases![
    the_most_urgent_goes_first,
    urgency_goes_before_waiting_time,
    of_equal_urgency_the_one_that_was_due_first_goes_first,
    of_those_due_at_one_instant_the_lowest_id_goes_first,
    a_delayed_task_takes_its_place_by_its_time_and_not_by_its_age,
    a_retried_task_takes_its_place_by_its_next_start,
    a_released_task_takes_its_place_by_its_release,
    a_snoozed_task_takes_its_place_by_its_new_time,
    a_lost_task_takes_its_place_by_the_discovery,
    a_task_made_due_takes_its_place_by_that_moment,
    a_due_task_made_due_again_keeps_its_place,
    a_task_that_was_assigned_and_released_takes_its_place_by_its_release,
    a_task_freed_by_its_key_keeps_the_place_of_its_own_time,
    a_task_released_at_the_instant_it_was_taken_goes_by_its_id,
    several_queues_are_one_order,
    only_the_queues_that_were_asked_for_are_served,
    a_queue_that_is_asked_for_twice_is_served_once,
    only_the_types_that_were_asked_for_are_served_and_in_order,
    no_types_at_all_means_no_tasks,
    any_mix_of_urgency_and_time_is_served_in_exact_order,
    concurrent_leasers_share_all_tasks_and_none_twice,
];
