//! Dispatch (seed 004): which tasks workers pull and which a leader assigns; what a leader reads; how a
//! worker starts what it was assigned; and what becomes of orphans without a leader.

use weaver_core::id::{Epoch, LeaseToken, TaskKey, Version};
use weaver_core::lease::{LeaseRequest, Leased};
use weaver_core::lifecycle::{Command, OrphanCause, Refused, decide};
use weaver_core::ports::{AssignableRequest, QueueSettings, Selector, TaskQuery};
use weaver_core::queue::start::start_assigned;
use weaver_core::queue::{Committed, Interest, Wake};
use weaver_core::task::{AttemptOutcome, Cause, Dispatch, TaskState};

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task, worker};

async fn tasks_of_an_assign_queue_are_not_pulled(harness: Harness) {
    let key = assign_queue_with_a_task(&harness).await;
    assert!(harness.lease(10).await.is_empty());
    assert_eq!(assignable(&harness, &["default"], 10).await, [key]);
}

async fn tasks_of_a_pull_queue_are_not_assigned(harness: Harness) {
    let key = harness.enqueue(task()).await;
    assert!(assignable(&harness, &["default"], 10).await.is_empty());
    assert_eq!(harness.lease_keys(10).await, [key]);
}

async fn the_dispatch_of_a_task_precedes_that_of_its_queue(harness: Harness) {
    let assigned = harness.enqueue(task().dispatch(Dispatch::Assign)).await;
    let pulled = harness.enqueue(task().dispatch(Dispatch::Pull)).await;
    assert_eq!(harness.record(&assigned).await.spec.dispatch(), Some(Dispatch::Assign));
    assert_eq!(assignable(&harness, &["default"], 10).await, std::slice::from_ref(&assigned));
    set_dispatch(&harness, Dispatch::Assign).await;
    assert_eq!(assignable(&harness, &["default"], 10).await, [assigned]);
    assert_eq!(harness.lease_keys(10).await, [pulled]);
}

async fn the_dispatch_of_a_queue_counts_at_the_moment_of_looking(harness: Harness) {
    let key = assign_queue_with_a_task(&harness).await;
    set_dispatch(&harness, Dispatch::Pull).await;
    assert!(assignable(&harness, &["default"], 10).await.is_empty());
    assert_eq!(harness.lease_keys(10).await, [key]);
}

async fn with_the_fallback_a_worker_pulls_from_assign_queues(harness: Harness) {
    let own = harness.enqueue(task().dispatch(Dispatch::Assign)).await;
    let of_queue = assign_queue_with_a_task(&harness).await;
    let request = LeaseRequest { assign_fallback: true, ..harness.request(10) };
    assert_eq!(keys(&harness.lease_as(request).await), [own, of_queue]);
}

async fn assignable_tasks_are_listed_in_the_order_of_g7(harness: Harness) {
    set_dispatch(&harness, Dispatch::Assign).await;
    let tasks = vec![task().priority(6), task(), task().priority(0), task()];
    let all = harness.enqueue_all(tasks).await;
    let by_order = [2, 1, 3, 0].map(|index: usize| all[index].clone());
    assert_eq!(assignable(&harness, &["default"], 10).await, by_order);
    assert_eq!(assignable(&harness, &["default"], 2).await, by_order[..2]);
}

async fn assignable_tasks_of_several_queues_and_dispatches_are_merged(harness: Harness) {
    set_dispatch(&harness, Dispatch::Assign).await;
    let one = harness.enqueue(task()).await;
    let two = harness.enqueue(task().queue("other").dispatch(Dispatch::Assign)).await;
    harness.enqueue(task().queue("other")).await;
    let three = harness.enqueue(task().dispatch(Dispatch::Assign)).await;
    let four = harness.enqueue(task().queue("third").dispatch(Dispatch::Assign)).await;
    assert_eq!(assignable(&harness, &["default", "other"], 10).await, [one, two, three]);
    assert_eq!(assignable(&harness, &["third"], 10).await, [four]);
}

async fn what_cannot_start_is_not_assignable(harness: Harness) {
    set_dispatch(&harness, Dispatch::Assign).await;
    harness.enqueue(task().delay(seconds(10))).await;
    let expires_at = harness.now().await.saturating_add(seconds(5));
    harness.enqueue(task().expires_at(expires_at)).await;
    let held = harness.enqueue_all(vec![task().serial_key("k"); 2]).await;
    harness.advance(seconds(5)).await;
    assert_eq!(assignable(&harness, &["default"], 10).await, held[..1]);
    harness.apply(&held[0], assign("v", 7)).await;
    assert!(assignable(&harness, &["default"], 10).await.is_empty());
}

async fn a_paused_queue_and_a_full_one_have_nothing_to_assign(harness: Harness) {
    let settings = QueueSettings { dispatch: Dispatch::Assign, ..QueueSettings::default() };
    harness.set_queue("default", QueueSettings { paused: true, ..settings }).await;
    let all = harness.enqueue_all(vec![task(); 3]).await;
    assert!(assignable(&harness, &["default"], 10).await.is_empty());
    harness.set_queue("default", QueueSettings { max_running: Some(2), ..settings }).await;
    assert_eq!(assignable(&harness, &["default"], 10).await, all[..2]);
    harness.apply(&all[0], assign("v", 7)).await;
    assert_eq!(assignable(&harness, &["default"], 10).await, all[1..2]);
    harness.apply(&all[1], assign("v", 7)).await;
    assert!(assignable(&harness, &["default"], 10).await.is_empty());
}

async fn requests_for_assignable_tasks_are_answered_each_within_its_namespace(harness: Harness) {
    let settings = QueueSettings { dispatch: Dispatch::Assign, ..QueueSettings::default() };
    for space in ["one", "two"] {
        let expect = weaver_core::ports::Expect::Anything;
        let put = harness.store.put_queue(&namespace(space), &queue("default"), settings, expect).await;
        put.expect("the settings are valid");
    }
    let one = harness.enqueue(task().namespace("one")).await;
    let two = harness.enqueue(task().namespace("two")).await;
    let requests = ["one", "two"].map(|space| request(space, &["default"], 10)).to_vec();
    let found = harness.store.assignable(requests).await.expect("the store answers");
    let found: Vec<Vec<TaskKey>> =
        found.into_iter().map(|records| records.into_iter().map(|record| record.key).collect()).collect();
    assert_eq!(found, [vec![one], vec![two]]);
}

async fn a_leader_finds_what_is_assigned_and_what_is_orphaned_longest_first(harness: Harness) {
    let all = harness.enqueue_all(vec![task(); 3]).await;
    harness.apply(&all[1], assign("v", 7)).await;
    harness.advance(seconds(1)).await;
    harness.apply(&all[0], assign("w", 7)).await;
    harness.advance(seconds(1)).await;
    harness.apply(&all[1], Command::Orphan(OrphanCause::Left)).await;
    let found = harness.store.assignments(10).await.expect("the store answers");
    let found: Vec<_> = found.into_iter().map(|record| (record.key, record.state)).collect();
    let expected = [(all[0].clone(), TaskState::Assigned), (all[1].clone(), TaskState::Orphaned)];
    assert_eq!(found, expected);
    assert_eq!(harness.store.assignments(1).await.expect("the store answers").len(), 1);
}

async fn the_tasks_of_a_worker_are_those_it_runs_and_those_it_was_assigned(harness: Harness) {
    let all = harness.enqueue_all(vec![task(); 4]).await;
    harness.apply(&all[2], assign("v", 7)).await;
    harness.apply(&all[3], assign("w", 7)).await;
    let leased = harness.lease_by("v", 1).await;
    let query = || TaskQuery::new(Default::default()).select(Selector::Worker(worker("v")));
    let listed = harness.store.list_tasks(TaskQuery { limit: 1, ..query() }).await.expect("it answers");
    let rest = harness.store.list_tasks(TaskQuery { cursor: listed.next.clone(), ..query() }).await;
    let mut found: Vec<_> = listed.items;
    found.extend(rest.expect("it answers").items);
    let mut found: Vec<TaskKey> = found.into_iter().map(|record| record.key).collect();
    found.sort();
    assert_eq!(found, [leased[0].lease.key.clone(), all[2].clone()]);
}

async fn a_worker_starts_what_it_was_assigned_and_nothing_else(harness: Harness) {
    let all = harness.enqueue_all(vec![task(); 3]).await;
    harness.apply(&all[0], assign("v", 7)).await;
    harness.apply(&all[1], assign("w", 7)).await;
    let started = start(&harness, "v", harness.token()).await;
    assert_eq!(keys(&started), all[..1]);
    assert_eq!((started[0].lease.epoch, started[0].record.state), (Epoch(7), TaskState::Running));
    assert!(start(&harness, "v", harness.token()).await.is_empty());
    harness.succeed(&started[0]).await;
}

async fn a_repeated_start_answers_what_the_first_one_started(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign("v", 7)).await;
    let token = harness.token();
    let started = start(&harness, "v", token).await;
    let again = start(&harness, "v", token).await;
    assert_eq!(
        started.iter().map(|one| &one.lease).collect::<Vec<_>>(),
        again.iter().map(|one| &one.lease).collect::<Vec<_>>()
    );
    assert_eq!(harness.record(&key).await.executions, 1);
}

async fn a_worker_starts_at_most_as_many_as_it_asked_for_in_order(harness: Harness) {
    let all = harness.enqueue_all(vec![task().priority(6), task(), task().priority(0)]).await;
    for key in &all {
        harness.apply(key, assign("v", 7)).await;
    }
    let request = LeaseRequest { worker: worker("v"), ..harness.request(2) };
    let started = start_assigned(&*harness.store, &request).await.expect("the store answers");
    assert_eq!(keys(&started), [all[2].clone(), all[1].clone()]);
}

async fn an_assignment_is_valid_whatever_term_wrote_it(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign("v", 3)).await;
    // Another leader has been elected since: only state, worker and version decide.
    let started = start(&harness, "v", harness.token()).await;
    assert_eq!(started[0].lease.epoch, Epoch(3));
}

async fn a_task_that_was_taken_back_is_not_started(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::NotStarted)).await;
    assert!(start(&harness, "v", harness.token()).await.is_empty());
    assert_eq!(harness.record(&key).await.executions, 0);
}

async fn an_assignment_wakes_its_worker(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let interest = || Interest::Assigned { namespace: Default::default(), worker: worker("v") };
    let timed_out = harness.store.wait(interest(), std::time::Duration::ZERO).await;
    assert_eq!(timed_out.expect("it answers"), Wake::TimedOut);
    harness.apply(&key, assign("v", 7)).await;
    let woken = harness.store.wait(interest(), seconds(5)).await;
    assert_eq!(woken.expect("it answers"), Wake::Ready);
    let other = Interest::Assigned { namespace: Default::default(), worker: worker("w") };
    let other = harness.store.wait(other, std::time::Duration::ZERO).await;
    assert_eq!(other.expect("it answers"), Wake::TimedOut);
}

async fn a_leader_is_woken_by_tasks_that_it_assigns_and_not_by_others(harness: Harness) {
    set_dispatch(&harness, Dispatch::Assign).await;
    harness.enqueue(task().dispatch(Dispatch::Pull)).await;
    let interest = || Interest::Assignable {
        namespace: Default::default(),
        queues: vec![queue("default")],
        types: None,
    };
    let timed_out = harness.store.wait(interest(), std::time::Duration::ZERO).await;
    assert_eq!(timed_out.expect("it answers"), Wake::TimedOut);
    harness.enqueue(task()).await;
    let woken = harness.store.wait(interest(), seconds(5)).await;
    assert_eq!(woken.expect("it answers"), Wake::Ready);
}

async fn only_silence_is_charged_as_a_loss(harness: Harness) {
    for cause in OrphanCause::ALL {
        let key = harness.enqueue(task()).await;
        harness.apply(&key, assign("v", 7)).await;
        harness.apply(&key, Command::Orphan(cause)).await;
        let record = harness.record(&key).await;
        let expected = u32::from(cause == OrphanCause::Silent);
        assert_eq!((record.state, record.losses), (TaskState::Orphaned, expected), "{cause:?}");
        assert_eq!(record.attempts[0].outcome, AttemptOutcome::Orphaned);
        harness.cancel(&key).await;
    }
}

async fn a_run_once_task_that_was_never_started_is_not_charged(harness: Harness) {
    let key = harness.enqueue(task().max_losses(0).max_attempts(1)).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    assert_eq!(harness.record(&key).await.losses, 0);
    harness.apply(&key, assign("w", 7)).await;
}

async fn an_orphan_that_is_released_can_be_pulled_at_once(harness: Harness) {
    let key = harness.enqueue(task().serial_key("k")).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Left)).await;
    harness.apply(&key, Command::ReleaseOrphan).await;
    let record = harness.record(&key).await;
    assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Released)));
    assert_eq!((record.attempt, record.executions, record.losses), (1, 0, 0));
    let leased = harness.lease_one().await;
    assert_eq!(leased.lease.attempt, 2);
    harness.succeed(&leased).await;
}

async fn an_orphan_without_budget_is_not_released(harness: Harness) {
    let key = harness.enqueue(task().max_losses(1)).await;
    for _ in 0..2 {
        harness.apply(&key, assign("v", 7)).await;
        harness.apply(&key, Command::Orphan(OrphanCause::Silent)).await;
    }
    let refused = decide(&harness.record(&key).await, Command::ReleaseOrphan, harness.now().await);
    assert_eq!(refused, Err(Refused::LossBudgetSpent { max_losses: 1 }));
}

async fn a_released_orphan_that_never_started_can_still_expire(harness: Harness) {
    let expires_at = harness.now().await.saturating_add(seconds(60));
    let key = harness.enqueue(task().expires_at(expires_at)).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Left)).await;
    harness.apply(&key, Command::ReleaseOrphan).await;
    harness.advance(seconds(60)).await;
    assert!(harness.lease(10).await.is_empty());
    let overdue = harness.overdue().await;
    assert_eq!(overdue.len(), 1, "{overdue:?}");
}

async fn two_nodes_that_release_one_orphan_do_so_once(harness: Harness) {
    let key = harness.enqueue(task()).await;
    harness.apply(&key, assign("v", 7)).await;
    harness.apply(&key, Command::Orphan(OrphanCause::Left)).await;
    let one = harness.decided(&key, Command::ReleaseOrphan).await;
    let other = harness.decided(&key, assign("w", 8)).await;
    assert_eq!(harness.commit_one(one.clone()).await, Committed::Applied { version: Version(4) });
    assert_eq!(harness.commit_one(one).await, Committed::AlreadyApplied);
    assert_eq!(harness.commit_one(other).await, Committed::Stale);
}

async fn the_dispatch_of_a_queue_is_listed_with_its_settings(harness: Harness) {
    set_dispatch(&harness, Dispatch::Assign).await;
    let queues = harness.store.list_queues(&Default::default()).await.expect("the store answers");
    assert_eq!(queues[0].settings.dispatch, Dispatch::Assign);
}

fn assign(name: &str, epoch: u64) -> Command {
    Command::Assign { worker: worker(name), epoch: Epoch(epoch) }
}

fn request(space: &str, queues: &[&str], max: u32) -> AssignableRequest {
    let queues = queues.iter().map(|name| queue(name)).collect();
    AssignableRequest { namespace: namespace(space), queues, types: None, max }
}

async fn assignable(harness: &Harness, queues: &[&str], max: u32) -> Vec<TaskKey> {
    let found = harness.store.assignable(vec![request("default", queues, max)]).await;
    let mut found = found.expect("the store answers");
    found.remove(0).into_iter().map(|record| record.key).collect()
}

async fn set_dispatch(harness: &Harness, dispatch: Dispatch) {
    harness.set_queue("default", QueueSettings { dispatch, ..QueueSettings::default() }).await;
}

async fn assign_queue_with_a_task(harness: &Harness) -> TaskKey {
    set_dispatch(harness, Dispatch::Assign).await;
    harness.enqueue(task()).await
}

async fn start(harness: &Harness, name: &str, token: LeaseToken) -> Vec<Leased> {
    let request = LeaseRequest { worker: worker(name), token, ..harness.request(10) };
    start_assigned(&*harness.store, &request).await.expect("the store answers")
}

cases![
    tasks_of_an_assign_queue_are_not_pulled,
    tasks_of_a_pull_queue_are_not_assigned,
    the_dispatch_of_a_task_precedes_that_of_its_queue,
    the_dispatch_of_a_queue_counts_at_the_moment_of_looking,
    with_the_fallback_a_worker_pulls_from_assign_queues,
    assignable_tasks_are_listed_in_the_order_of_g7,
    assignable_tasks_of_several_queues_and_dispatches_are_merged,
    what_cannot_start_is_not_assignable,
    a_paused_queue_and_a_full_one_have_nothing_to_assign,
    requests_for_assignable_tasks_are_answered_each_within_its_namespace,
    a_leader_finds_what_is_assigned_and_what_is_orphaned_longest_first,
    the_tasks_of_a_worker_are_those_it_runs_and_those_it_was_assigned,
    a_worker_starts_what_it_was_assigned_and_nothing_else,
    a_repeated_start_answers_what_the_first_one_started,
    a_worker_starts_at_most_as_many_as_it_asked_for_in_order,
    an_assignment_is_valid_whatever_term_wrote_it,
    a_task_that_was_taken_back_is_not_started,
    an_assignment_wakes_its_worker,
    a_leader_is_woken_by_tasks_that_it_assigns_and_not_by_others,
    only_silence_is_charged_as_a_loss,
    a_run_once_task_that_was_never_started_is_not_charged,
    an_orphan_that_is_released_can_be_pulled_at_once,
    an_orphan_without_budget_is_not_released,
    a_released_orphan_that_never_started_can_still_expire,
    two_nodes_that_release_one_orphan_do_so_once,
    the_dispatch_of_a_queue_is_listed_with_its_settings,
];
