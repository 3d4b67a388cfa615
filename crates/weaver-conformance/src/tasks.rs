//! Reading tasks: by id, counts, and positions in the queue. Lists are in [`super::lists`].

use weaver_core::id::{TaskId, TaskKey};
use weaver_core::lifecycle::Command;
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Ahead, Counts, Scope};
use weaver_core::task::TaskState;

use super::cases;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task};

cases![
    a_decimal_id_resolves_to_itself_even_without_such_a_task,
    text_that_is_neither_a_decimal_id_nor_a_known_name_finds_nothing,
    ids_are_resolved_within_the_namespace_that_was_named,
    records_are_returned_in_key_order_with_none_for_unknown_tasks,
    a_task_is_not_found_under_another_namespace,
    counts_tell_states_apart_by_namespace_and_by_queue,
    a_due_task_keeps_its_stored_state_in_counts,
    the_oldest_wait_is_that_of_the_task_that_has_been_due_longest,
    nothing_waits_where_nothing_is_due,
    the_tasks_ahead_are_those_that_would_be_leased_before,
    counting_the_tasks_ahead_stops_at_the_cap,
    a_task_that_does_not_wait_has_no_place_in_the_queue,
];

async fn resolve(harness: &Harness, namespace: &Namespace, ids: &[&str]) -> Vec<Option<TaskKey>> {
    let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
    harness.store.resolve(namespace, &ids).await.expect("the store answers")
}

async fn a_decimal_id_resolves_to_itself_even_without_such_a_task(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let space = Namespace::default();
    let unknown = TaskKey::new(space.clone(), TaskId(987_654_321));
    let found = resolve(&harness, &space, &["987654321", &key.id.to_string()]).await;
    assert_eq!(found, [Some(unknown), Some(key)]);
}

async fn text_that_is_neither_a_decimal_id_nor_a_known_name_finds_nothing(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let padded = format!("0{}", key.id);
    let texts = ["task-001", "", "-1", "+7", "1.5", "99999999999999999999", &padded];
    let found = resolve(&harness, &Namespace::default(), &texts).await;
    assert_eq!(found, vec![None; texts.len()]);
}

async fn ids_are_resolved_within_the_namespace_that_was_named(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let other = namespace("other");
    let found = resolve(&harness, &other, &[&key.id.to_string()]).await;
    assert_eq!(found, [Some(TaskKey::new(other, key.id))]);
}

async fn records_are_returned_in_key_order_with_none_for_unknown_tasks(harness: Harness) {
    let first = harness.enqueue(task()).await;
    let second = harness.enqueue(task().queue("other")).await;
    let unknown = TaskKey::new(Namespace::default(), TaskId(987_654_321));
    let keys = [second.clone(), unknown, first.clone(), second.clone()];
    let found = harness.store.get_tasks(&keys).await.expect("the store answers");
    let found: Vec<_> = found.into_iter().map(|record| record.map(|record| record.key)).collect();
    assert_eq!(found, [Some(second.clone()), None, Some(first), Some(second)]);
}

async fn a_task_is_not_found_under_another_namespace(harness: Harness) {
    let key = harness.enqueue(task().namespace("one")).await;
    assert!(harness.find(&TaskKey::new(namespace("two"), key.id)).await.is_none());
    assert_eq!(harness.record(&key).await.key, key);
}

async fn counts_of(harness: &Harness, scope: Scope) -> Counts {
    harness.store.counts(scope).await.expect("the store answers")
}

async fn counts_tell_states_apart_by_namespace_and_by_queue(harness: Harness) {
    for _ in 0..3 {
        harness.enqueue(task()).await;
    }
    harness.enqueue(task().delay(seconds(60))).await;
    harness.enqueue(task().queue("side")).await;
    harness.enqueue(task().namespace("other")).await;
    let leased = harness.lease(2).await;
    harness.succeed(&leased[0]).await;
    let space = Namespace::default();
    let whole = counts_of(&harness, Scope::Namespace(space.clone())).await;
    let expected = [
        (TaskState::Queued, 2),
        (TaskState::Scheduled, 1),
        (TaskState::Running, 1),
        (TaskState::Succeeded, 1),
    ];
    for (state, count) in whole.values.iter() {
        let wanted = expected.iter().find(|(wanted, _)| *wanted == state).map_or(0, |(_, count)| *count);
        assert_eq!(count, wanted, "{state}");
    }
    assert_eq!(whole.as_of, harness.now().await);
    let side = counts_of(&harness, Scope::Queue(space, queue("side"))).await.values;
    assert_eq!((side.get(TaskState::Queued), side.total()), (1, 1));
    let other = counts_of(&harness, Scope::Namespace(namespace("other"))).await.values;
    assert_eq!((other.get(TaskState::Queued), other.total()), (1, 1));
    assert_eq!(counts_of(&harness, Scope::Namespace(namespace("empty"))).await.values.total(), 0);
}

async fn a_due_task_keeps_its_stored_state_in_counts(harness: Harness) {
    let key = harness.enqueue(task().delay(seconds(10))).await;
    harness.advance(seconds(20)).await;
    let counts = counts_of(&harness, Scope::Namespace(Namespace::default())).await;
    assert_eq!(counts.values.get(TaskState::Scheduled), 1);
    assert_eq!(counts.values.get(TaskState::Queued), 0);
    assert_eq!(counts.oldest_ready_at, Some(harness.record(&key).await.ready_at));
    assert_eq!(counts.oldest_wait(), Some(seconds(10)));
}

async fn the_oldest_wait_is_that_of_the_task_that_has_been_due_longest(harness: Harness) {
    let space = Namespace::default();
    let oldest = harness.enqueue(task().queue("side").priority(9)).await;
    harness.advance(seconds(5)).await;
    let younger = harness.enqueue(task().priority(0)).await;
    harness.advance(seconds(5)).await;
    let oldest_at = harness.record(&oldest).await.ready_at;
    let younger_at = harness.record(&younger).await.ready_at;
    let whole = counts_of(&harness, Scope::Namespace(space.clone())).await;
    assert_eq!(whole.oldest_ready_at, Some(oldest_at));
    let here = counts_of(&harness, Scope::Queue(space, queue("default"))).await;
    assert_eq!(here.oldest_ready_at, Some(younger_at));
}

async fn nothing_waits_where_nothing_is_due(harness: Harness) {
    let scope = Scope::Namespace(Namespace::default());
    assert_eq!(counts_of(&harness, scope.clone()).await.oldest_ready_at, None);
    harness.enqueue(task().delay(seconds(60))).await;
    assert_eq!(counts_of(&harness, scope.clone()).await.oldest_ready_at, None);
    harness.enqueue(task()).await;
    harness.lease_one().await;
    assert_eq!(counts_of(&harness, scope).await.oldest_ready_at, None);
}

async fn ahead_of(harness: &Harness, key: &TaskKey, cap: u32) -> Option<Ahead> {
    harness.store.ahead_of(key, cap).await.expect("the store answers")
}

async fn the_tasks_ahead_are_those_that_would_be_leased_before(harness: Harness) {
    let first = harness.enqueue(task()).await;
    let second = harness.enqueue(task()).await;
    let last = harness.enqueue(task().priority(9)).await;
    let urgent = harness.enqueue(task().priority(0)).await;
    harness.enqueue(task().priority(0).queue("elsewhere")).await;
    harness.enqueue(task().priority(0).namespace("elsewhere")).await;
    for (place, key) in [urgent, first, second, last].iter().enumerate() {
        let count = u32::try_from(place).expect("a small number");
        assert_eq!(ahead_of(&harness, key, 100).await, Some(Ahead { count, capped: false }), "{key}");
    }
}

async fn counting_the_tasks_ahead_stops_at_the_cap(harness: Harness) {
    for _ in 0..9 {
        harness.enqueue(task()).await;
    }
    let last = harness.enqueue(task()).await;
    assert_eq!(ahead_of(&harness, &last, 4).await, Some(Ahead { count: 4, capped: true }));
    assert_eq!(ahead_of(&harness, &last, 100).await, Some(Ahead { count: 9, capped: false }));
}

async fn a_task_that_does_not_wait_has_no_place_in_the_queue(harness: Harness) {
    let running = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    assert_eq!(ahead_of(&harness, &running, 10).await, None);
    let cancelled = harness.enqueue(task()).await;
    let _ = harness.command(&cancelled, Command::Cancel).await;
    assert_eq!(ahead_of(&harness, &cancelled, 10).await, None);
    let _ = harness.finish(&leased, Outcome::DONE).await;
    assert_eq!(ahead_of(&harness, &running, 10).await, None);
    let unknown = TaskKey::new(Namespace::default(), TaskId(987_654_321));
    assert_eq!(ahead_of(&harness, &unknown, 10).await, None);
}
