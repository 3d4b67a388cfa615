//! Queues and their settings, namespaces, and retention.

use bytes::Bytes;
use weaver_core::error::Problem;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lifecycle::Command;
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{
    DocumentKey, Expect, PurgeRule, QueueInfo, QueueSettings, ReadFrom, Scope, Seq, StreamKey, TaskQuery,
};
use weaver_core::task::{NewTask, TaskState};

use super::answers::{conflict, items, pages, refusal};
use super::cases;
use weaver_testkit::harness::{Harness, namespace, queue, seconds, task};

cases![
    queues_with_tasks_or_settings_are_listed_by_name,
    a_queue_reports_how_many_of_its_slots_are_taken,
    settings_are_written_only_over_the_expected_version,
    a_conflict_leaves_the_settings_as_they_were,
    a_concurrency_limit_of_zero_is_refused,
    settings_touch_only_their_own_namespace,
    only_finished_tasks_are_purged,
    a_purged_task_disappears_from_lists_and_counts,
    a_purge_keeps_to_its_namespace_queue_and_state,
    a_purge_without_a_namespace_covers_all_namespaces,
    a_purge_keeps_tasks_within_their_retention,
    a_purge_stops_at_its_limit_and_says_that_there_is_more,
    a_purge_skips_tasks_with_a_cancellation_hold,
    the_streams_of_a_purged_task_are_purged_with_it,
    a_purge_rule_for_unfinished_tasks_is_refused,
    namespaces_are_listed_by_name_in_pages,
    a_namespace_without_tasks_is_listed_if_it_has_anything_else,
];

async fn queues(harness: &Harness, space: &Namespace) -> Vec<QueueInfo> {
    harness.store.list_queues(space).await.expect("the store answers")
}

fn limited(max_running: u32) -> QueueSettings {
    QueueSettings { max_running: Some(max_running), ..QueueSettings::default() }
}

async fn put(harness: &Harness, name: &str, settings: QueueSettings, expect: Expect) -> Version {
    let answer = harness.store.put_queue(&Namespace::default(), &queue(name), settings, expect).await;
    answer.expect("the settings are valid and expected")
}

async fn queues_with_tasks_or_settings_are_listed_by_name(harness: Harness) {
    let space = Namespace::default();
    assert_eq!(queues(&harness, &space).await, []);
    harness.enqueue(task().queue("busy")).await;
    let version = put(&harness, "a set one", limited(2), Expect::Absent).await;
    let expected = [
        QueueInfo { name: queue("a set one"), settings: limited(2), version, occupied: 0 },
        QueueInfo {
            name: queue("busy"),
            settings: QueueSettings::default(),
            version: Version(0),
            occupied: 0,
        },
    ];
    assert_eq!(queues(&harness, &space).await, expected);
    assert_eq!(queues(&harness, &namespace("other")).await, []);
}

async fn a_queue_reports_how_many_of_its_slots_are_taken(harness: Harness) {
    let space = Namespace::default();
    let occupied = async || queues(&harness, &space).await[0].occupied;
    for _ in 0..3 {
        harness.enqueue(task()).await;
    }
    assert_eq!(occupied().await, 0);
    let leased = harness.lease(2).await;
    assert_eq!(occupied().await, 2);
    harness.succeed(&leased[0]).await;
    assert_eq!(occupied().await, 1);
    let _ = harness.command(&leased[1].lease.key, Command::Cancel).await;
    assert_eq!(occupied().await, 1, "the handler has yet to stop");
    harness.store.confirm_stopped(vec![leased[1].lease.clone()]).await.expect("the store answers");
    assert_eq!(occupied().await, 0);
}

async fn settings_are_written_only_over_the_expected_version(harness: Harness) {
    let space = Namespace::default();
    let put_if = async |expect| harness.store.put_queue(&space, &queue("q"), limited(1), expect).await;
    assert_eq!(conflict(put_if(Expect::Version(Version(7))).await), Version(0));
    let first = put(&harness, "q", limited(1), Expect::Absent).await;
    assert!(first > Version(0));
    assert_eq!(conflict(put_if(Expect::Absent).await), first);
    let second = put(&harness, "q", limited(2), Expect::Version(first)).await;
    assert!(second > first);
    assert_eq!(conflict(put_if(Expect::Version(first)).await), second);
    let third = put(&harness, "q", limited(3), Expect::Anything).await;
    assert!(third > second);
    assert_eq!((queues(&harness, &space).await[0].settings, third), (limited(3), third));
}

async fn a_conflict_leaves_the_settings_as_they_were(harness: Harness) {
    let space = Namespace::default();
    put(&harness, "q", limited(1), Expect::Absent).await;
    let before = queues(&harness, &space).await;
    let paused = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    conflict(harness.store.put_queue(&space, &queue("q"), paused, Expect::Absent).await);
    assert_eq!(queues(&harness, &space).await, before);
}

async fn a_concurrency_limit_of_zero_is_refused(harness: Harness) {
    let space = Namespace::default();
    let refused = refusal(harness.store.put_queue(&space, &queue("q"), limited(0), Expect::Anything).await);
    assert_eq!(refused.field, "max_running");
    assert!(matches!(refused.problem, Problem::OutOfRange { value: 0, min: 1, .. }));
    assert_eq!(queues(&harness, &space).await, []);
}

async fn settings_touch_only_their_own_namespace(harness: Harness) {
    harness.enqueue(task()).await;
    let paused = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    let other = namespace("other");
    harness.store.put_queue(&other, &queue("default"), paused, Expect::Absent).await.expect("it is new");
    assert_eq!(harness.lease(1).await.len(), 1);
}

fn everything_ended() -> PurgeRule {
    PurgeRule { namespace: None, queue: None, state: None, finished_for: seconds(0) }
}

async fn purge(harness: &Harness, rule: PurgeRule) -> u32 {
    harness.store.purge_tasks(rule, 1000).await.expect("the store answers").count
}

/// Enqueues a task and finishes it; nothing else may be due in queue `default`.
async fn ended(harness: &Harness, task: NewTask, outcome: Outcome) -> TaskKey {
    let key = harness.enqueue(task.priority(0)).await;
    let record = harness.record(&key).await;
    let mut request = harness.request(1);
    request.namespace = key.namespace.clone();
    request.queues = vec![record.spec.queue.clone()];
    let leased = harness.lease_as(request).await;
    assert_eq!(leased[0].lease.key, key);
    let _ = harness.finish(&leased[0], outcome).await;
    key
}

async fn only_finished_tasks_are_purged(harness: Harness) {
    let mut gone = Vec::new();
    gone.push(ended(&harness, task(), Outcome::DONE).await);
    gone.push(ended(&harness, task(), Outcome::fatal("no")).await);
    let cancelled = harness.enqueue(task()).await;
    let _ = harness.command(&cancelled, Command::Cancel).await;
    gone.push(cancelled);
    let mut kept = vec![ended(&harness, task(), Outcome::failed("later")).await];
    kept.push(harness.enqueue(task().priority(0)).await);
    harness.lease_one().await;
    kept.push(harness.enqueue(task()).await);
    kept.push(harness.enqueue(task().delay(seconds(60))).await);
    assert_eq!(purge(&harness, everything_ended()).await, 3);
    for key in gone {
        assert!(harness.find(&key).await.is_none(), "{key}");
    }
    for key in kept {
        assert!(harness.find(&key).await.is_some(), "{key}");
    }
    assert_eq!(purge(&harness, everything_ended()).await, 0, "nothing is left to purge");
}

async fn a_purged_task_disappears_from_lists_and_counts(harness: Harness) {
    let space = Namespace::default();
    ended(&harness, task().task_group_id("group"), Outcome::DONE).await;
    purge(&harness, everything_ended()).await;
    let page = harness.store.list_tasks(TaskQuery::new(space.clone())).await.expect("the store answers");
    assert_eq!(page.items, []);
    let groups = harness.store.list_groups(&space, None, 10).await.expect("the store answers");
    assert_eq!(groups.items, []);
    let counts = harness.store.counts(Scope::Namespace(space)).await.expect("the store answers");
    assert_eq!(counts.values.total(), 0);
}

async fn a_purge_keeps_to_its_namespace_queue_and_state(harness: Harness) {
    let target = ended(&harness, task().queue("q"), Outcome::fatal("no")).await;
    let others = [
        ended(&harness, task().queue("q"), Outcome::DONE).await,
        ended(&harness, task(), Outcome::fatal("no")).await,
        ended(&harness, task().queue("q").namespace("other"), Outcome::fatal("no")).await,
    ];
    let rule = PurgeRule {
        namespace: Some(Namespace::default()),
        queue: Some(queue("q")),
        state: Some(TaskState::Dead),
        finished_for: seconds(0),
    };
    assert_eq!(purge(&harness, rule).await, 1);
    assert!(harness.find(&target).await.is_none());
    for key in others {
        assert!(harness.find(&key).await.is_some(), "{key}");
    }
}

async fn a_purge_without_a_namespace_covers_all_namespaces(harness: Harness) {
    ended(&harness, task().namespace("one"), Outcome::DONE).await;
    ended(&harness, task().namespace("two"), Outcome::DONE).await;
    assert_eq!(purge(&harness, everything_ended()).await, 2);
}

async fn a_purge_keeps_tasks_within_their_retention(harness: Harness) {
    let old = ended(&harness, task(), Outcome::DONE).await;
    harness.advance(seconds(10)).await;
    let young = ended(&harness, task(), Outcome::DONE).await;
    let rule = |count| PurgeRule { finished_for: seconds(count), ..everything_ended() };
    assert_eq!(purge(&harness, rule(11)).await, 0);
    assert_eq!(purge(&harness, rule(10)).await, 1, "at least so long ago");
    assert!(harness.find(&old).await.is_none());
    assert!(harness.find(&young).await.is_some());
}

async fn a_purge_stops_at_its_limit_and_says_that_there_is_more(harness: Harness) {
    for _ in 0..5 {
        ended(&harness, task(), Outcome::DONE).await;
    }
    let first = harness.store.purge_tasks(everything_ended(), 2).await.expect("the store answers");
    assert_eq!((first.count, first.more), (2, true));
    let mut count = first.count;
    for _ in 0..5 {
        let next = harness.store.purge_tasks(everything_ended(), 2).await.expect("the store answers");
        assert!(next.count <= 2);
        count += next.count;
        if !next.more {
            break;
        }
    }
    assert_eq!(count, 5);
}

async fn a_purge_skips_tasks_with_a_cancellation_hold(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    let _ = harness.command(&key, Command::Cancel).await;
    harness.advance(seconds(3600)).await;
    assert_eq!(purge(&harness, everything_ended()).await, 0);
    assert!(harness.find(&key).await.is_some());
    harness.store.confirm_stopped(vec![leased.lease]).await.expect("the store answers");
    assert_eq!(purge(&harness, everything_ended()).await, 1);
}

async fn the_streams_of_a_purged_task_are_purged_with_it(harness: Harness) {
    let gone = ended(&harness, task(), Outcome::DONE).await;
    let kept = harness.enqueue(task()).await;
    let streams = [&gone, &kept].map(|key| StreamKey::attempt_log(key, 1));
    for stream in &streams {
        let bodies = [Bytes::from_static(b"output")];
        harness.store.append_entries(stream, &bodies).await.expect("the store answers");
    }
    assert_eq!(purge(&harness, everything_ended()).await, 1);
    let mut lengths = Vec::new();
    for stream in &streams {
        let page = harness.store.read_entries(stream, ReadFrom::After(Seq(0)), 10).await;
        lengths.push(page.expect("the store answers").entries.len());
    }
    assert_eq!(lengths, [0, 1]);
}

async fn a_purge_rule_for_unfinished_tasks_is_refused(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let rule = PurgeRule { state: Some(TaskState::Queued), ..everything_ended() };
    assert_eq!(refusal(harness.store.purge_tasks(rule, 10).await).field, "state");
    assert!(harness.find(&key).await.is_some());
}

async fn namespaces(harness: &Harness) -> Vec<String> {
    let pages = pages(|cursor| harness.store.list_namespaces(cursor, 2)).await;
    items(pages, 2).into_iter().map(|space| space.to_string()).collect()
}

async fn namespaces_are_listed_by_name_in_pages(harness: Harness) {
    assert_eq!(namespaces(&harness).await, Vec::<String>::new());
    for name in ["c", "a", "e", "b", "d", "a"] {
        harness.enqueue(task().namespace(name)).await;
    }
    assert_eq!(namespaces(&harness).await, ["a", "b", "c", "d", "e"]);
}

async fn a_namespace_without_tasks_is_listed_if_it_has_anything_else(harness: Harness) {
    let answer = harness.store.put_queue(&namespace("q"), &queue("q"), limited(1), Expect::Absent).await;
    answer.expect("it is new");
    let document = DocumentKey::new(namespace("d"), "kind", "id");
    let answer = harness.store.put_document(&document, Bytes::new(), Expect::Absent, None).await;
    answer.expect("it is new");
    assert_eq!(namespaces(&harness).await, ["d", "q"]);
}
