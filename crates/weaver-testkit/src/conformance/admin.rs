//! Queues and their settings, namespaces, and the removal of what has ended.

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
use crate::bed::{Bed, namespace, queue, seconds, task};

cases![
    queues_with_tasks_or_settings_are_listed_by_name,
    a_queue_says_how_many_of_its_slots_are_taken,
    settings_are_written_only_over_what_was_expected,
    a_conflict_leaves_the_settings_as_they_were,
    a_limit_that_nothing_can_pass_is_refused,
    settings_touch_only_their_own_namespace,
    only_what_has_ended_is_purged,
    a_purged_task_is_gone_from_lists_and_counts,
    a_purge_keeps_to_its_namespace_queue_and_state,
    a_purge_without_a_namespace_goes_through_all,
    a_purge_spares_what_ended_too_recently,
    a_purge_stops_at_its_limit_and_says_that_there_is_more,
    a_purge_never_takes_a_task_whose_handler_has_yet_to_stop,
    the_streams_of_a_purged_task_go_with_it,
    a_rule_about_tasks_that_have_not_ended_is_refused,
    namespaces_are_listed_by_name_in_pages,
    a_namespace_without_tasks_is_listed_if_it_has_anything_else,
];

async fn queues(bed: &Bed, space: &Namespace) -> Vec<QueueInfo> {
    bed.store.list_queues(space).await.expect("the store answers")
}

fn limited(max_running: u32) -> QueueSettings {
    QueueSettings { max_running: Some(max_running), ..QueueSettings::default() }
}

async fn put(bed: &Bed, name: &str, settings: QueueSettings, expect: Expect) -> Version {
    let answer = bed.store.put_queue(&Namespace::default(), &queue(name), settings, expect).await;
    answer.expect("the settings are valid and expected")
}

async fn queues_with_tasks_or_settings_are_listed_by_name(bed: Bed) {
    let space = Namespace::default();
    assert_eq!(queues(&bed, &space).await, []);
    bed.enqueue(task().queue("busy")).await;
    let version = put(&bed, "a set one", limited(2), Expect::Absent).await;
    let expected = [
        QueueInfo { name: queue("a set one"), settings: limited(2), version, occupied: 0 },
        QueueInfo {
            name: queue("busy"),
            settings: QueueSettings::default(),
            version: Version(0),
            occupied: 0,
        },
    ];
    assert_eq!(queues(&bed, &space).await, expected);
    assert_eq!(queues(&bed, &namespace("other")).await, []);
}

async fn a_queue_says_how_many_of_its_slots_are_taken(bed: Bed) {
    let space = Namespace::default();
    let occupied = async || queues(&bed, &space).await[0].occupied;
    for _ in 0..3 {
        bed.enqueue(task()).await;
    }
    assert_eq!(occupied().await, 0);
    let leased = bed.lease(2).await;
    assert_eq!(occupied().await, 2);
    bed.succeed(&leased[0]).await;
    assert_eq!(occupied().await, 1);
    let _ = bed.command(&leased[1].lease.key, Command::Cancel).await;
    assert_eq!(occupied().await, 1, "the handler has yet to stop");
    bed.store.confirm_stopped(vec![leased[1].lease.clone()]).await.expect("the store answers");
    assert_eq!(occupied().await, 0);
}

async fn settings_are_written_only_over_what_was_expected(bed: Bed) {
    let space = Namespace::default();
    let put_if = async |expect| bed.store.put_queue(&space, &queue("q"), limited(1), expect).await;
    assert_eq!(conflict(put_if(Expect::Version(Version(7))).await), Version(0));
    let first = put(&bed, "q", limited(1), Expect::Absent).await;
    assert!(first > Version(0));
    assert_eq!(conflict(put_if(Expect::Absent).await), first);
    let second = put(&bed, "q", limited(2), Expect::Version(first)).await;
    assert!(second > first);
    assert_eq!(conflict(put_if(Expect::Version(first)).await), second);
    let third = put(&bed, "q", limited(3), Expect::Anything).await;
    assert!(third > second);
    assert_eq!((queues(&bed, &space).await[0].settings, third), (limited(3), third));
}

async fn a_conflict_leaves_the_settings_as_they_were(bed: Bed) {
    let space = Namespace::default();
    put(&bed, "q", limited(1), Expect::Absent).await;
    let before = queues(&bed, &space).await;
    let paused = QueueSettings { paused: true, max_running: None };
    conflict(bed.store.put_queue(&space, &queue("q"), paused, Expect::Absent).await);
    assert_eq!(queues(&bed, &space).await, before);
}

async fn a_limit_that_nothing_can_pass_is_refused(bed: Bed) {
    let space = Namespace::default();
    let refused = refusal(bed.store.put_queue(&space, &queue("q"), limited(0), Expect::Anything).await);
    assert_eq!(refused.field, "max_running");
    assert!(matches!(refused.problem, Problem::OutOfRange { value: 0, min: 1, .. }));
    assert_eq!(queues(&bed, &space).await, []);
}

async fn settings_touch_only_their_own_namespace(bed: Bed) {
    bed.enqueue(task()).await;
    let paused = QueueSettings { paused: true, max_running: None };
    let other = namespace("other");
    bed.store.put_queue(&other, &queue("default"), paused, Expect::Absent).await.expect("it is new");
    assert_eq!(bed.lease(1).await.len(), 1);
}

fn everything_ended() -> PurgeRule {
    PurgeRule { namespace: None, queue: None, state: None, finished_for: seconds(0) }
}

async fn purge(bed: &Bed, rule: PurgeRule) -> u32 {
    bed.store.purge_tasks(rule, 1000).await.expect("the store answers").count
}

/// Enqueues a task and ends it; nothing else may be due in queue `default`.
async fn ended(bed: &Bed, task: NewTask, outcome: Outcome) -> TaskKey {
    let key = bed.enqueue(task.priority(0)).await;
    let record = bed.record(&key).await;
    let mut request = bed.request(1);
    request.namespace = key.namespace.clone();
    request.queues = vec![record.spec.queue.clone()];
    let leased = bed.lease_as(request).await;
    assert_eq!(leased[0].lease.key, key);
    let _ = bed.finish(&leased[0], outcome).await;
    key
}

async fn only_what_has_ended_is_purged(bed: Bed) {
    let mut gone = Vec::new();
    gone.push(ended(&bed, task(), Outcome::DONE).await);
    gone.push(ended(&bed, task(), Outcome::fatal("no")).await);
    let cancelled = bed.enqueue(task()).await;
    let _ = bed.command(&cancelled, Command::Cancel).await;
    gone.push(cancelled);
    let mut kept = vec![ended(&bed, task(), Outcome::failed("later")).await];
    kept.push(bed.enqueue(task().priority(0)).await);
    bed.lease_one().await;
    kept.push(bed.enqueue(task()).await);
    kept.push(bed.enqueue(task().delay(seconds(60))).await);
    assert_eq!(purge(&bed, everything_ended()).await, 3);
    for key in gone {
        assert!(bed.find(&key).await.is_none(), "{key}");
    }
    for key in kept {
        assert!(bed.find(&key).await.is_some(), "{key}");
    }
    assert_eq!(purge(&bed, everything_ended()).await, 0, "nothing is left to purge");
}

async fn a_purged_task_is_gone_from_lists_and_counts(bed: Bed) {
    let space = Namespace::default();
    ended(&bed, task().task_group_id("group"), Outcome::DONE).await;
    purge(&bed, everything_ended()).await;
    let page = bed.store.list_tasks(TaskQuery::new(space.clone())).await.expect("the store answers");
    assert_eq!(page.items, []);
    let groups = bed.store.list_groups(&space, None, 10).await.expect("the store answers");
    assert_eq!(groups.items, []);
    let counts = bed.store.counts(Scope::Namespace(space)).await.expect("the store answers");
    assert_eq!(counts.values.total(), 0);
}

async fn a_purge_keeps_to_its_namespace_queue_and_state(bed: Bed) {
    let target = ended(&bed, task().queue("q"), Outcome::fatal("no")).await;
    let others = [
        ended(&bed, task().queue("q"), Outcome::DONE).await,
        ended(&bed, task(), Outcome::fatal("no")).await,
        ended(&bed, task().queue("q").namespace("other"), Outcome::fatal("no")).await,
    ];
    let rule = PurgeRule {
        namespace: Some(Namespace::default()),
        queue: Some(queue("q")),
        state: Some(TaskState::Dead),
        finished_for: seconds(0),
    };
    assert_eq!(purge(&bed, rule).await, 1);
    assert!(bed.find(&target).await.is_none());
    for key in others {
        assert!(bed.find(&key).await.is_some(), "{key}");
    }
}

async fn a_purge_without_a_namespace_goes_through_all(bed: Bed) {
    ended(&bed, task().namespace("one"), Outcome::DONE).await;
    ended(&bed, task().namespace("two"), Outcome::DONE).await;
    assert_eq!(purge(&bed, everything_ended()).await, 2);
}

async fn a_purge_spares_what_ended_too_recently(bed: Bed) {
    let old = ended(&bed, task(), Outcome::DONE).await;
    bed.advance(seconds(10)).await;
    let young = ended(&bed, task(), Outcome::DONE).await;
    let rule = |count| PurgeRule { finished_for: seconds(count), ..everything_ended() };
    assert_eq!(purge(&bed, rule(11)).await, 0);
    assert_eq!(purge(&bed, rule(10)).await, 1, "at least so long ago");
    assert!(bed.find(&old).await.is_none());
    assert!(bed.find(&young).await.is_some());
}

async fn a_purge_stops_at_its_limit_and_says_that_there_is_more(bed: Bed) {
    for _ in 0..5 {
        ended(&bed, task(), Outcome::DONE).await;
    }
    let first = bed.store.purge_tasks(everything_ended(), 2).await.expect("the store answers");
    assert_eq!((first.count, first.more), (2, true));
    let mut count = first.count;
    for _ in 0..5 {
        let next = bed.store.purge_tasks(everything_ended(), 2).await.expect("the store answers");
        assert!(next.count <= 2);
        count += next.count;
        if !next.more {
            break;
        }
    }
    assert_eq!(count, 5);
}

async fn a_purge_never_takes_a_task_whose_handler_has_yet_to_stop(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let leased = bed.lease_one().await;
    let _ = bed.command(&key, Command::Cancel).await;
    bed.advance(seconds(3600)).await;
    assert_eq!(purge(&bed, everything_ended()).await, 0);
    assert!(bed.find(&key).await.is_some());
    bed.store.confirm_stopped(vec![leased.lease]).await.expect("the store answers");
    assert_eq!(purge(&bed, everything_ended()).await, 1);
}

async fn the_streams_of_a_purged_task_go_with_it(bed: Bed) {
    let gone = ended(&bed, task(), Outcome::DONE).await;
    let kept = bed.enqueue(task()).await;
    let streams = [&gone, &kept].map(|key| StreamKey::attempt_log(key, 1));
    for stream in &streams {
        let bodies = [Bytes::from_static(b"output")];
        bed.store.append_entries(stream, &bodies).await.expect("the store answers");
    }
    assert_eq!(purge(&bed, everything_ended()).await, 1);
    let mut lengths = Vec::new();
    for stream in &streams {
        let page = bed.store.read_entries(stream, ReadFrom::After(Seq(0)), 10).await;
        lengths.push(page.expect("the store answers").entries.len());
    }
    assert_eq!(lengths, [0, 1]);
}

async fn a_rule_about_tasks_that_have_not_ended_is_refused(bed: Bed) {
    let key = bed.enqueue(task()).await;
    let rule = PurgeRule { state: Some(TaskState::Queued), ..everything_ended() };
    assert_eq!(refusal(bed.store.purge_tasks(rule, 10).await).field, "state");
    assert!(bed.find(&key).await.is_some());
}

async fn namespaces(bed: &Bed) -> Vec<String> {
    let pages = pages(|cursor| bed.store.list_namespaces(cursor, 2)).await;
    items(pages, 2).into_iter().map(|space| space.to_string()).collect()
}

async fn namespaces_are_listed_by_name_in_pages(bed: Bed) {
    assert_eq!(namespaces(&bed).await, Vec::<String>::new());
    for name in ["c", "a", "e", "b", "d", "a"] {
        bed.enqueue(task().namespace(name)).await;
    }
    assert_eq!(namespaces(&bed).await, ["a", "b", "c", "d", "e"]);
}

async fn a_namespace_without_tasks_is_listed_if_it_has_anything_else(bed: Bed) {
    let answer = bed.store.put_queue(&namespace("q"), &queue("q"), limited(1), Expect::Absent).await;
    answer.expect("it is new");
    let document = DocumentKey::new(namespace("d"), "kind", "id");
    let answer = bed.store.put_document(&document, Bytes::new(), Expect::Absent, None).await;
    answer.expect("it is new");
    assert_eq!(namespaces(&bed).await, ["d", "q"]);
}
