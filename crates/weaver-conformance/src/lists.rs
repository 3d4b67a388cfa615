//! Lists of tasks and groups: selectors, filters, order, pages.

use std::collections::BTreeSet;

use weaver_core::error::Problem;
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Command;
use weaver_core::name::{Namespace, SerialKey, SessionId, TaskGroupId, TaskType};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Cursor, GroupSummary, Order, Selector, TaskFilter, TaskQuery};
use weaver_core::task::{NewTask, TaskState};

use super::answers::{items, pages, refusal};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task};

cases![
    each_selector_finds_its_tasks_and_no_others,
    a_state_finds_the_tasks_that_are_in_it_now,
    a_serial_key_finds_those_that_have_not_ended_or_still_hold_it,
    a_filter_matches_only_tasks_that_meet_all_its_conditions,
    a_list_shows_nothing_of_another_namespace,
    tasks_are_listed_newest_first_or_oldest_first,
    pages_show_every_task_exactly_once_in_both_orders,
    a_search_that_reached_scan_max_is_incomplete_and_can_continue,
    a_cursor_that_no_list_returned_is_refused,
    groups_are_listed_by_id_with_their_counts,
    groups_come_in_pages,
];

fn everything() -> TaskQuery {
    TaskQuery { order: Order::OldestFirst, limit: 100, ..TaskQuery::new(Namespace::default()) }
}

async fn found(harness: &Harness, query: TaskQuery) -> Vec<TaskKey> {
    let page = harness.store.list_tasks(query).await.expect("the store answers");
    assert!(page.complete, "nothing cut the page short");
    page.items.into_iter().map(|record| record.key).collect()
}

async fn each_selector_finds_its_tasks_and_no_others(harness: Harness) {
    let plain = harness.enqueue(task()).await;
    let typed = harness.enqueue(NewTask::new("rare")).await;
    let queued = harness.enqueue(task().queue("side")).await;
    let grouped = harness.enqueue(task().task_group_id("group")).await;
    let conversing = harness.enqueue(task().session_id("session")).await;
    let labelled = harness.enqueue(task().label("colour", "red")).await;
    harness.enqueue(task().label("colour", "blue")).await;
    let serial = harness.enqueue(task().serial_key("serial")).await;
    let selectors = [
        (Selector::Type(TaskType::new("rare").expect("a valid name")), typed),
        (Selector::Queue(queue("side")), queued),
        (Selector::Group(TaskGroupId::new("group").expect("a valid name")), grouped),
        (Selector::Session(SessionId::new("session").expect("a valid name")), conversing),
        (Selector::Label("colour".into(), "red".into()), labelled),
        (Selector::SerialKey(SerialKey::new("serial").expect("a valid name")), serial),
    ];
    for (selector, key) in selectors {
        assert_eq!(found(&harness, everything().select(selector.clone())).await, [key], "{selector:?}");
    }
    let all = found(&harness, everything()).await;
    assert_eq!(all.len(), 8);
    assert_eq!(all[0], plain);
}

async fn a_state_finds_the_tasks_that_are_in_it_now(harness: Harness) {
    let done = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let waiting = harness.enqueue(task()).await;
    let by = |state| everything().select(Selector::State(state));
    assert_eq!(found(&harness, by(TaskState::Running)).await, std::slice::from_ref(&done));
    harness.succeed(&leased).await;
    assert_eq!(found(&harness, by(TaskState::Running)).await, []);
    assert_eq!(found(&harness, by(TaskState::Succeeded)).await, [done]);
    assert_eq!(found(&harness, by(TaskState::Queued)).await, [waiting]);
}

async fn a_serial_key_finds_those_that_have_not_ended_or_still_hold_it(harness: Harness) {
    let by_key = || everything().select(Selector::SerialKey(SerialKey::new("k").expect("a valid name")));
    let first = harness.enqueue(task().serial_key("k")).await;
    let second = harness.enqueue(task().serial_key("k")).await;
    let leased = harness.lease_one().await;
    let _ = harness.command(&first, Command::Cancel).await;
    assert_eq!(found(&harness, by_key()).await, [first, second.clone()], "the first still holds the key");
    harness.store.confirm_stopped(vec![leased.lease]).await.expect("the store answers");
    assert_eq!(found(&harness, by_key()).await, [second]);
}

async fn a_filter_matches_only_tasks_that_meet_all_its_conditions(harness: Harness) {
    let early = harness.enqueue(task()).await;
    harness.advance(seconds(10)).await;
    let from = harness.now().await;
    let queued = harness.enqueue(task()).await;
    let rare = harness.enqueue(NewTask::new("rare").delay(seconds(60))).await;
    let side = harness.enqueue(task().queue("side")).await;
    harness.advance(seconds(10)).await;
    let before = harness.now().await;
    let late = harness.enqueue(task()).await;
    let keep = |filter| TaskQuery { filter, ..everything() };
    let rare_type = TaskType::new("rare").expect("a valid name");
    let none = TaskFilter::default();
    let filters = [
        (TaskFilter { states: vec![TaskState::Scheduled, TaskState::Dead], ..none.clone() }, vec![&rare]),
        (TaskFilter { types: vec![rare_type], ..none.clone() }, vec![&rare]),
        (TaskFilter { queue: Some(queue("side")), ..none.clone() }, vec![&side]),
        (TaskFilter { created_from: Some(before), ..none.clone() }, vec![&late]),
        (TaskFilter { created_before: Some(from), ..none.clone() }, vec![&early]),
        (
            TaskFilter {
                states: vec![TaskState::Queued],
                queue: Some(queue("default")),
                created_from: Some(from),
                created_before: Some(before),
                ..none
            },
            vec![&queued],
        ),
    ];
    for (filter, keys) in filters {
        let kept = found(&harness, keep(filter.clone())).await;
        assert_eq!(kept.iter().collect::<Vec<_>>(), keys, "{filter:?}");
    }
}

async fn a_list_shows_nothing_of_another_namespace(harness: Harness) {
    harness.enqueue(task().namespace("other").task_group_id("group")).await;
    assert_eq!(found(&harness, everything()).await, []);
    let by_group = Selector::Group(TaskGroupId::new("group").expect("a valid name"));
    assert_eq!(found(&harness, everything().select(by_group)).await, []);
    let groups = harness.store.list_groups(&Namespace::default(), None, 10).await.expect("the store answers");
    assert_eq!(groups.items, []);
}

async fn tasks_are_listed_newest_first_or_oldest_first(harness: Harness) {
    let first = harness.enqueue(task().priority(9)).await;
    let second = harness.enqueue(task().delay(seconds(60))).await;
    let third = harness.enqueue(task().priority(0)).await;
    assert_eq!(found(&harness, everything()).await, [first.clone(), second.clone(), third.clone()]);
    let newest_first = TaskQuery { order: Order::NewestFirst, ..everything() };
    assert_eq!(found(&harness, newest_first).await, [third, second, first]);
}

async fn pages_show_every_task_exactly_once_in_both_orders(harness: Harness) {
    let mut keys = Vec::new();
    for number in 0..23 {
        keys.push(harness.enqueue(task().queue(["left", "right"][number % 2])).await);
    }
    let left: Vec<_> = keys.iter().step_by(2).cloned().collect();
    for (selector, expected) in [(Selector::All, keys), (Selector::Queue(queue("left")), left)] {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let query = TaskQuery { order, limit: 5, ..everything().select(selector.clone()) };
            let read = |cursor| harness.store.list_tasks(TaskQuery { cursor, ..query.clone() });
            let mut seen: Vec<_> = items(pages(read).await, 5).into_iter().map(|record| record.key).collect();
            if order == Order::NewestFirst {
                seen.reverse();
            }
            assert_eq!(seen, expected, "{selector:?} {order:?}");
        }
    }
}

async fn a_search_that_reached_scan_max_is_incomplete_and_can_continue(harness: Harness) {
    let rare = harness.enqueue(NewTask::new("rare")).await;
    for _ in 0..20 {
        harness.enqueue(task()).await;
    }
    let types = vec![TaskType::new("rare").expect("a valid name")];
    let query = TaskQuery {
        order: Order::NewestFirst,
        filter: TaskFilter { types, ..TaskFilter::default() },
        scan_max: 5,
        ..everything()
    };
    let read = |cursor| harness.store.list_tasks(TaskQuery { cursor, ..query.clone() });
    let pages = pages(read).await;
    assert!(pages.len() >= 4, "21 tasks need more than {} pages of five", pages.len());
    assert!(!pages[0].complete, "the first page was cut short");
    for page in &pages {
        assert!(page.complete || page.next.is_some(), "a page cut short has a cursor");
    }
    let keys: Vec<_> = items(pages, 100).into_iter().map(|record| record.key).collect();
    assert_eq!(keys, [rare]);
}

async fn a_cursor_that_no_list_returned_is_refused(harness: Harness) {
    harness.enqueue(task().task_group_id("group")).await;
    let nonsense = || Some(Cursor("\u{0}no cursor at all".into()));
    let query = TaskQuery { cursor: nonsense(), ..everything() };
    let refused = refusal(harness.store.list_tasks(query).await);
    assert_eq!((refused.field, refused.problem), ("cursor", Problem::UnknownCursor));
}

fn summary(group: &GroupSummary) -> (&str, u64, u64) {
    let counts = group.counts;
    (group.id.as_str(), counts.get(TaskState::Queued), counts.get(TaskState::Dead))
}

async fn groups_are_listed_by_id_with_their_counts(harness: Harness) {
    harness.enqueue(task().task_group_id("zebra")).await;
    harness.enqueue(task().task_group_id("ant")).await;
    harness.enqueue(task().task_group_id("ant").priority(0)).await;
    harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.advance(seconds(7)).await;
    let _ = harness.finish(&leased, Outcome::fatal("no")).await;
    let page = harness.store.list_groups(&Namespace::default(), None, 10).await.expect("the store answers");
    let groups: Vec<_> = page.items.iter().map(summary).collect();
    assert_eq!(groups, [("ant", 1, 1), ("zebra", 1, 0)]);
    assert_eq!(page.items[0].last_at, harness.now().await);
    assert_eq!(page.items[1].last_at.saturating_add(seconds(7)), harness.now().await);
    assert_eq!(page.items[0].counts.total(), 2);
}

async fn groups_come_in_pages(harness: Harness) {
    let space = namespace("many");
    let mut expected = BTreeSet::new();
    for number in 0..11 {
        let id = format!("group-{}", (number * 7) % 11);
        harness.enqueue(task().namespace(&space).task_group_id(id.clone())).await;
        expected.insert(id);
    }
    let pages = pages(|cursor| harness.store.list_groups(&space, cursor, 4)).await;
    let seen: Vec<_> = items(pages, 4).into_iter().map(|group| group.id.to_string()).collect();
    assert_eq!(seen, expected.into_iter().collect::<Vec<_>>());
}
