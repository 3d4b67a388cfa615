//! G9, isolation: a task's identity is (namespace, id); no call on one namespace reads or changes another.

use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, Renewed};
use weaver_core::lifecycle::{Command, Transition};
use weaver_core::outcome::Outcome;
use weaver_core::ports::{PurgeRule, Scope, Selector, TaskQuery};
use weaver_core::queue::Committed;
use weaver_core::task::{NewTask, TaskState};

use super::cases;
use super::steps::keys;
use weaver_testkit::harness::{Harness, end_of, namespace, queue, seconds, task};

async fn a_namespace_leases_its_own_tasks_only(harness: Harness) {
    let (here, there) = twins(&harness).await;
    assert_eq!(keys(&harness.lease_in("a", &["mail"], 10).await), [here]);
    assert_eq!(keys(&harness.lease_in("b", &["mail"], 10).await), [there]);
    assert!(harness.lease_in("c", &["mail"], 10).await.is_empty());
}

async fn changes_in_one_namespace_do_not_affect_another(harness: Harness) {
    let (here, there) = twins(&harness).await;
    let before = harness.record(&there).await;
    let leased = harness.lease_in("a", &["mail"], 10).await.remove(0);
    harness.succeed(&leased).await;
    assert_eq!(harness.record(&here).await.state, TaskState::Succeeded);
    assert_eq!(harness.record(&there).await, before);
}

async fn cancelling_in_one_namespace_leaves_the_other(harness: Harness) {
    let (here, there) = twins(&harness).await;
    harness.cancel(&here).await;
    assert_eq!(harness.record(&there).await.state, TaskState::Queued);
    assert_eq!(keys(&harness.lease_in("b", &["mail"], 10).await), [there]);
}

async fn a_task_is_not_found_under_another_namespace(harness: Harness) {
    let (here, _) = twins(&harness).await;
    assert_eq!(harness.find(&TaskKey::new(namespace("empty"), here.id)).await, None);
}

async fn a_namespace_counts_its_own_tasks_only(harness: Harness) {
    twins(&harness).await;
    harness.lease_in("a", &["mail"], 10).await;
    for (space, state) in [("a", TaskState::Running), ("b", TaskState::Queued)] {
        for scope in [Scope::Namespace(namespace(space)), Scope::Queue(namespace(space), queue("mail"))] {
            let counts = harness.store.counts(scope).await.expect("the store answers");
            assert_eq!((counts.values.get(state), counts.values.total()), (1, 1));
        }
    }
    assert_eq!(harness.total("c").await, 0);
}

async fn a_namespace_lists_its_own_tasks_only(harness: Harness) {
    let (here, there) = twins(&harness).await;
    let selectors = [
        Selector::All,
        Selector::State(TaskState::Queued),
        Selector::Queue(queue("mail")),
        Selector::Label("team".into(), "red".into()),
    ];
    for selector in selectors {
        for (space, key) in [("a", &here), ("b", &there)] {
            let query = TaskQuery::new(namespace(space)).select(selector.clone());
            let page = harness.store.list_tasks(query).await.expect("the query is valid");
            let found: Vec<_> = page.items.iter().map(|record| &record.key).collect();
            assert_eq!(found, [key], "{selector:?}");
        }
    }
}

async fn a_namespace_lists_its_own_groups_only(harness: Harness) {
    twins(&harness).await;
    for space in ["a", "b"] {
        let page = harness.store.list_groups(&namespace(space), None, 10).await.expect("the store answers");
        let totals: Vec<_> = page.items.iter().map(|group| group.counts.total()).collect();
        assert_eq!(totals, [1]);
    }
    let page = harness.store.list_groups(&namespace("c"), None, 10).await.expect("the store answers");
    assert!(page.items.is_empty());
}

async fn a_key_held_in_one_namespace_is_free_in_the_other(harness: Harness) {
    let keyed = |space| task().namespace(space).serial_key("k");
    let enqueued = harness.enqueue_all(vec![keyed("a"), keyed("b"), keyed("a"), keyed("b")]).await;
    let leased = harness.lease_in("a", &["default"], 10).await;
    assert_eq!(keys(&leased), enqueued[..1]);
    assert_eq!(keys(&harness.lease_in("b", &["default"], 10).await), enqueued[1..2]);
    harness.succeed(&leased[0]).await;
    assert!(harness.lease_in("b", &["default"], 10).await.is_empty());
    assert_eq!(keys(&harness.lease_in("a", &["default"], 10).await), enqueued[2..3]);
}

async fn an_outcome_under_a_forged_namespace_is_stale_and_changes_nothing(harness: Harness) {
    let (here, _) = twins(&harness).await;
    let leased = harness.lease_in("a", &["mail"], 10).await.remove(0);
    let end = end_of(&leased, Outcome::DONE);
    let forged = Transition { key: TaskKey::new(namespace("empty"), here.id), ..end };
    assert_eq!(harness.commit_one(forged.clone()).await, Committed::Stale);
    assert_eq!(harness.find(&forged.key).await, None);
    assert_eq!(harness.record(&here).await, leased.record);
}

async fn a_command_under_a_forged_namespace_is_stale_and_changes_nothing(harness: Harness) {
    let (here, _) = twins(&harness).await;
    let cancel = harness.decided(&here, Command::Cancel).await;
    let forged = Transition { key: TaskKey::new(namespace("empty"), here.id), ..cancel };
    assert_eq!(harness.commit_one(forged).await, Committed::Stale);
    assert_eq!(harness.record(&here).await.state, TaskState::Queued);
}

async fn a_renewal_under_a_forged_namespace_is_lost_and_changes_nothing(harness: Harness) {
    let (here, there) = twins(&harness).await;
    let leased = harness.lease_in("a", &["mail"], 10).await.remove(0);
    harness.lease_in("b", &["mail"], 10).await;
    for space in ["b", "empty"] {
        let key = TaskKey::new(namespace(space), leased.lease.key.id);
        assert_eq!(harness.renew(&Lease { key, ..leased.lease.clone() }).await, Renewed::Lost);
    }
    assert_eq!(harness.record(&here).await.renewals, 0);
    assert_eq!(harness.record(&there).await.renewals, 0);
}

async fn a_confirmation_under_a_forged_namespace_changes_nothing(harness: Harness) {
    let (here, _) = twins(&harness).await;
    let leased = harness.lease_in("a", &["mail"], 10).await.remove(0);
    harness.cancel(&here).await;
    let key = TaskKey::new(namespace("b"), here.id);
    harness.confirm(&Lease { key, ..leased.lease.clone() }).await;
    assert_eq!(harness.record(&here).await.hold(), Some(leased.lease));
}

async fn purging_one_namespace_leaves_the_other(harness: Harness) {
    let (here, there) = twins(&harness).await;
    harness.cancel(&here).await;
    harness.cancel(&there).await;
    let space = Some(namespace("a"));
    let rule = PurgeRule { namespace: space, queue: None, state: None, finished_for: seconds(0) };
    assert_eq!(harness.store.purge_tasks(rule, 10).await.expect("the rule is valid").count, 1);
    assert_eq!(harness.find(&here).await, None);
    assert_eq!(harness.record(&there).await.state, TaskState::Cancelled);
}

async fn expired_leases_are_found_in_every_namespace_and_each_keeps_its_own(harness: Harness) {
    let (here, there) = twins(&harness).await;
    harness.lease_in("a", &["mail"], 10).await;
    harness.lease_in("b", &["mail"], 10).await;
    harness.advance(seconds(31)).await;
    assert_eq!(harness.maintain().await, 2);
    assert_eq!((harness.record(&here).await.losses, harness.record(&there).await.losses), (1, 1));
    assert_eq!(keys(&harness.lease_in("a", &["mail"], 10).await), [here]);
}

/// The same task in namespaces `a` and `b`.
async fn twins(harness: &Harness) -> (TaskKey, TaskKey) {
    let like = |space: &'static str| -> NewTask {
        task()
            .namespace(space)
            .queue("mail")
            .idempotency_key("order 7")
            .serial_key("customer 42")
            .task_group_id("release 12")
            .label("team", "red")
    };
    (harness.enqueue(like("a")).await, harness.enqueue(like("b")).await)
}

cases![
    a_namespace_leases_its_own_tasks_only,
    changes_in_one_namespace_do_not_affect_another,
    cancelling_in_one_namespace_leaves_the_other,
    a_task_is_not_found_under_another_namespace,
    a_namespace_counts_its_own_tasks_only,
    a_namespace_lists_its_own_tasks_only,
    a_namespace_lists_its_own_groups_only,
    a_key_held_in_one_namespace_is_free_in_the_other,
    an_outcome_under_a_forged_namespace_is_stale_and_changes_nothing,
    a_command_under_a_forged_namespace_is_stale_and_changes_nothing,
    a_renewal_under_a_forged_namespace_is_lost_and_changes_nothing,
    a_confirmation_under_a_forged_namespace_changes_nothing,
    purging_one_namespace_leaves_the_other,
    expired_leases_are_found_in_every_namespace_and_each_keeps_its_own,
];
