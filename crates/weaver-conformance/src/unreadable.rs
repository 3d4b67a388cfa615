//! An unreadable record affects no other. Each case corrupts one stored record in each way the store
//! supports; a store that supports none must have an empty quarantine.

use std::time::Duration;

use weaver_core::error::Error;
use weaver_core::explain::Reason;
use weaver_core::id::TaskKey;
use weaver_core::lease::{Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{Expect, PurgeRule, QueueSettings, Scope, TaskQuery};
use weaver_core::quarantine::{Discarded, Quarantined, RawTask, RecordKind, Unreadable};
use weaver_core::queue::{Committed, Interest, QueueExt, Wake};
use weaver_core::task::TaskState;

use super::cases;
use weaver_testkit::harness::{CorruptedRecord, Corruption, Harness, namespace, queue, seconds, task};

cases![
    an_undecodable_task_is_left_out_of_lists_and_quarantined,
    a_task_of_an_unknown_format_is_left_out_of_lists_and_quarantined,
    a_lease_of_three_returns_the_two_readable_tasks,
    a_lease_passes_over_an_unknown_format_and_changes_nothing,
    waiting_workers_are_not_woken_for_unreadable_tasks,
    lease_expiry_continues_despite_an_undecodable_task,
    lease_expiry_continues_despite_an_unknown_format,
    a_batch_is_committed_without_the_undecodable_member,
    a_batch_is_committed_without_the_member_of_an_unknown_format,
    retention_continues_despite_unreadable_tasks,
    the_key_of_an_undecodable_task_stays_held_and_is_explained,
    the_key_of_an_unknown_format_stays_held_and_is_explained,
    the_slot_of_an_unreadable_task_stays_held,
    a_waiting_task_that_is_discarded_frees_its_key,
    any_task_is_shown_as_stored_and_discarded_if_unchanged,
];

/// Makes a task unreadable; `None` if the store cannot, and its quarantine is empty.
pub(super) async fn spoiled(harness: Harness, record: CorruptedRecord, how: Corruption) -> Option<Harness> {
    let (harness, done) = harness.corrupt(record, how).await;
    if !done {
        assert_eq!(quarantined(&harness).await, []);
    }
    done.then_some(harness)
}

pub(super) async fn quarantined(harness: &Harness) -> Vec<Quarantined> {
    harness.store.list_quarantined(None, None, 100).await.expect("the store answers").items
}

async fn finding(harness: &Harness, key: &TaskKey) -> Option<Quarantined> {
    harness.store.find_quarantined(std::slice::from_ref(key)).await.expect("the store answers").remove(0)
}

async fn raw(harness: &Harness, key: &TaskKey) -> RawTask {
    harness.store.raw_task(key).await.expect("the store answers").expect("the task is stored")
}

async fn listed(harness: &Harness, space: &Namespace) -> Vec<TaskKey> {
    let page = harness.store.list_tasks(TaskQuery::new(space.clone())).await.expect("a list");
    let mut keys: Vec<TaskKey> = page.items.into_iter().map(|record| record.key).collect();
    keys.sort();
    keys
}

/// Reads a task that must be unreadable in this way.
async fn expect_unreadable(harness: &Harness, key: &TaskKey, how: Corruption) {
    assert_eq!(harness.find(key).await, None);
    let finding = finding(harness, key).await.expect("it was read");
    assert_eq!((finding.kind, &finding.namespace), (RecordKind::Task, &key.namespace));
    let is_unknown = matches!(finding.reason, Unreadable::UnknownFormat { .. });
    assert_eq!(is_unknown, how == Corruption::UnknownFormat, "{finding:?}");
    let read = harness.store.get_task(key).await;
    assert!(matches!(&read, Err(Error::Quarantined { key: of, .. }) if of == key), "{read:?}");
}

async fn left_out(harness: Harness, how: Corruption) {
    let keys = [harness.enqueue(task()).await, harness.enqueue(task()).await, harness.enqueue(task()).await];
    let before = harness.store.counts(Scope::Namespace(Namespace::default())).await.expect("counts");
    let Some(harness) = spoiled(harness, CorruptedRecord::Task(keys[1].clone()), how).await else { return };
    assert_eq!(listed(&harness, &Namespace::default()).await, [keys[0].clone(), keys[2].clone()]);
    expect_unreadable(&harness, &keys[1], how).await;
    let others = harness.store.get_tasks(&keys).await.expect("the store answers");
    assert_eq!(others.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(quarantined(&harness).await.len(), 1);
    let after = harness.store.counts(Scope::Namespace(Namespace::default())).await.expect("counts");
    assert_eq!(after.values, before.values);
}

async fn an_undecodable_task_is_left_out_of_lists_and_quarantined(harness: Harness) {
    left_out(harness, Corruption::Undecodable).await;
}

async fn a_task_of_an_unknown_format_is_left_out_of_lists_and_quarantined(harness: Harness) {
    left_out(harness, Corruption::UnknownFormat).await;
}

async fn a_lease_of_three_returns_the_two_readable_tasks(harness: Harness) {
    let keys = [harness.enqueue(task()).await, harness.enqueue(task()).await, harness.enqueue(task()).await];
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[0].clone()), Corruption::Undecodable).await
    else {
        return;
    };
    assert_eq!(harness.lease_keys(3).await, [keys[1].clone(), keys[2].clone()]);
    expect_unreadable(&harness, &keys[0], Corruption::Undecodable).await;
    let finding = finding(&harness, &keys[0]).await.expect("it was found");
    assert!(!finding.holds_slot, "it must not stay running: {finding:?}");
    // It is not leased again.
    let before = raw(&harness, &keys[0]).await;
    assert_eq!(harness.lease_keys(3).await, []);
    assert_eq!(raw(&harness, &keys[0]).await, before);
}

async fn a_lease_passes_over_an_unknown_format_and_changes_nothing(harness: Harness) {
    let keys = [harness.enqueue(task()).await, harness.enqueue(task()).await];
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[0].clone()), Corruption::UnknownFormat).await
    else {
        return;
    };
    let before = raw(&harness, &keys[0]).await;
    // One at a time: a skipped record takes no place.
    assert_eq!(harness.lease_keys(1).await, [keys[1].clone()]);
    assert_eq!(harness.lease_keys(1).await, []);
    let due = harness.store.run_now(&keys[0]).await;
    assert!(matches!(due, Err(Error::Quarantined { .. })), "{due:?}");
    harness.advance(seconds(120)).await;
    harness.maintain().await;
    assert_eq!(raw(&harness, &keys[0]).await, before);
    expect_unreadable(&harness, &keys[0], Corruption::UnknownFormat).await;
}

async fn waiting_workers_are_not_woken_for_unreadable_tasks(harness: Harness) {
    let keys = [harness.enqueue(task()).await, harness.enqueue(task()).await];
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[0].clone()), Corruption::Undecodable).await
    else {
        return;
    };
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[1].clone()), Corruption::UnknownFormat).await
    else {
        return;
    };
    assert_eq!(harness.lease_keys(5).await, []);
    let interest = || Interest::Work {
        namespace: Namespace::default(),
        queues: vec![queue("default")],
        types: None,
        fragile: true,
    };
    let woken = harness.store.wait(interest(), Duration::ZERO).await.expect("the store answers");
    assert_eq!(woken, Wake::TimedOut);
    harness.enqueue(task()).await;
    let woken = harness.store.wait(interest(), Duration::ZERO).await.expect("the store answers");
    assert_eq!(woken, Wake::Ready);
}

async fn expiry_goes_on(harness: Harness, how: Corruption) {
    let elsewhere = namespace("elsewhere");
    let keys = [harness.enqueue(task()).await, harness.enqueue(task()).await];
    let other = harness.enqueue(task().namespace("elsewhere")).await;
    assert_eq!(harness.lease_keys(2).await.len(), 2);
    let request = weaver_core::lease::LeaseRequest { namespace: elsewhere, ..harness.request(1) };
    assert_eq!(harness.lease_as(request).await.len(), 1);
    let Some(harness) = spoiled(harness, CorruptedRecord::Task(keys[0].clone()), how).await else { return };
    let before = raw(&harness, &keys[0]).await;
    harness.advance(seconds(31)).await;
    // Twice: a record that was quarantined the first time is skipped the second time.
    harness.maintain().await;
    harness.advance(seconds(120)).await;
    harness.maintain().await;
    for key in [&keys[1], &other] {
        assert_eq!(harness.record(key).await.state, TaskState::RetryScheduled);
    }
    assert_eq!(raw(&harness, &keys[0]).await, before, "it is not expired");
    expect_unreadable(&harness, &keys[0], how).await;
}

async fn lease_expiry_continues_despite_an_undecodable_task(harness: Harness) {
    expiry_goes_on(harness, Corruption::Undecodable).await;
}

async fn lease_expiry_continues_despite_an_unknown_format(harness: Harness) {
    expiry_goes_on(harness, Corruption::UnknownFormat).await;
}

async fn commit_goes_on(harness: Harness, how: Corruption) {
    for _ in 0..2 {
        harness.enqueue(task()).await;
    }
    let leased: Vec<Leased> = harness.lease(2).await;
    let waiting = harness.enqueue(task()).await;
    let record = harness.record(&waiting).await;
    let victim = leased[0].lease.key.clone();
    let Some(harness) = spoiled(harness, CorruptedRecord::Task(victim.clone()), how).await else { return };
    expect_unreadable(&harness, &victim, how).await;
    let before = raw(&harness, &victim).await;
    let end = |leased: &Leased| {
        let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
        decide(&leased.record, command, leased.record.updated_at).expect("the lease was valid")
    };
    let cancel = decide(&record, Command::Cancel, record.updated_at).expect("it waits");
    let kill = decide(&leased[0].record, Command::Cancel, record.updated_at).expect("it runs");
    let batch = vec![end(&leased[0]), cancel, kill, end(&leased[1])];
    let answers = harness.store.commit(batch, None).await.expect("the store answers");
    let is_applied = |answer: &Committed| matches!(answer, Committed::Applied { .. });
    assert_eq!(answers.iter().map(is_applied).collect::<Vec<_>>(), [false, true, false, true], "{answers:?}");
    assert_eq!((&answers[0], &answers[2]), (&Committed::Stale, &Committed::Stale));
    assert_eq!(raw(&harness, &victim).await, before);
}

async fn a_batch_is_committed_without_the_undecodable_member(harness: Harness) {
    commit_goes_on(harness, Corruption::Undecodable).await;
}

async fn a_batch_is_committed_without_the_member_of_an_unknown_format(harness: Harness) {
    commit_goes_on(harness, Corruption::UnknownFormat).await;
}

async fn retention_continues_despite_unreadable_tasks(harness: Harness) {
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(harness.enqueue(task()).await);
        let leased = harness.lease_one().await;
        harness.succeed(&leased).await;
    }
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[0].clone()), Corruption::Undecodable).await
    else {
        return;
    };
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(keys[1].clone()), Corruption::UnknownFormat).await
    else {
        return;
    };
    expect_unreadable(&harness, &keys[0], Corruption::Undecodable).await;
    let before = raw(&harness, &keys[1]).await;
    harness.advance(seconds(100)).await;
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: seconds(10) };
    harness.store.purge_tasks(rule, 100).await.expect("the store answers");
    assert_eq!(harness.find(&keys[2]).await, None);
    assert_eq!(finding(&harness, &keys[2]).await, None);
    assert_eq!(raw(&harness, &keys[1]).await, before);
    expect_unreadable(&harness, &keys[1], Corruption::UnknownFormat).await;
}

/// A task that runs and is then unreadable, and one behind it in its key.
async fn key_stays_held(harness: Harness, how: Corruption) {
    let first = harness.enqueue(task().serial_key("k")).await;
    assert_eq!(harness.lease_one().await.lease.key, first);
    let behind = harness.enqueue(task().serial_key("k")).await;
    let other = harness.enqueue(task().serial_key("free")).await;
    let Some(harness) = spoiled(harness, CorruptedRecord::Task(first.clone()), how).await else { return };
    assert_eq!(harness.lease_keys(5).await, [other]);
    harness.advance(seconds(31)).await;
    harness.maintain().await;
    let leased = harness.lease_keys(5).await;
    assert!(!leased.contains(&behind), "its lease is over, its key is not: {leased:?}");
    let reasons = harness.store.explain(&behind).await.expect("it is there").reasons;
    assert!(reasons.contains(&Reason::KeyUnreadable { by: first.id.to_string() }), "{reasons:?}");
    let stored = raw(&harness, &first).await;
    assert_eq!(harness.store.discard_task(&first, &stored).await.expect("an answer"), Discarded::Removed);
    assert!(harness.lease_keys(5).await.contains(&behind), "a discarded task holds no key");
    assert_eq!(quarantined(&harness).await, []);
}

async fn the_key_of_an_undecodable_task_stays_held_and_is_explained(harness: Harness) {
    key_stays_held(harness, Corruption::Undecodable).await;
}

async fn the_key_of_an_unknown_format_stays_held_and_is_explained(harness: Harness) {
    key_stays_held(harness, Corruption::UnknownFormat).await;
}

async fn the_slot_of_an_unreadable_task_stays_held(harness: Harness) {
    let settings = QueueSettings { paused: false, max_running: Some(1), ..QueueSettings::default() };
    let (here, limited) = (Namespace::default(), queue("default"));
    let put = harness.store.put_queue(&here, &limited, settings, Expect::Anything);
    put.await.expect("it can be set");
    let first = harness.enqueue(task()).await;
    assert_eq!(harness.lease_one().await.lease.key, first);
    let behind = harness.enqueue(task()).await;
    let Some(harness) = spoiled(harness, CorruptedRecord::Task(first.clone()), Corruption::Undecodable).await
    else {
        return;
    };
    expect_unreadable(&harness, &first, Corruption::Undecodable).await;
    assert!(finding(&harness, &first).await.expect("it was found").holds_slot);
    harness.advance(seconds(31)).await;
    harness.maintain().await;
    assert_eq!(harness.lease_keys(5).await, []);
    let reasons = harness.store.explain(&behind).await.expect("it is there").reasons;
    assert!(reasons.contains(&Reason::SlotsUnreadable { queue: queue("default"), count: 1 }), "{reasons:?}");
    let stored = raw(&harness, &first).await;
    assert_eq!(harness.store.discard_task(&first, &stored).await.expect("an answer"), Discarded::Removed);
    assert_eq!(harness.lease_keys(5).await, [behind]);
}

async fn a_waiting_task_that_is_discarded_frees_its_key(harness: Harness) {
    let first = harness.enqueue(task().serial_key("k")).await;
    let behind = harness.enqueue(task().serial_key("k")).await;
    let Some(harness) =
        spoiled(harness, CorruptedRecord::Task(first.clone()), Corruption::UnknownFormat).await
    else {
        return;
    };
    assert_eq!(harness.lease_keys(5).await, []);
    let stored = raw(&harness, &first).await;
    assert_eq!(harness.store.discard_task(&first, &stored).await.expect("an answer"), Discarded::Removed);
    assert_eq!(harness.lease_keys(5).await, [behind]);
}

async fn any_task_is_shown_as_stored_and_discarded_if_unchanged(harness: Harness) {
    let ended = harness.enqueue(task()).await;
    let leased = harness.lease_one().await;
    harness.succeed(&leased).await;
    let running = harness.enqueue(task().serial_key("k")).await;
    let lease = harness.lease_one().await.lease;
    let waiting = harness.enqueue(task().delay(seconds(5)).idempotency_key("once")).await;
    let behind = harness.enqueue(task().serial_key("k")).await;
    let seen = raw(&harness, &waiting).await;
    harness.apply(&waiting, Command::RunNow).await;
    assert_eq!(harness.store.discard_task(&waiting, &seen).await.expect("an answer"), Discarded::Changed);
    for key in [&ended, &running, &waiting] {
        let stored = raw(&harness, key).await;
        assert_eq!(stored, raw(&harness, key).await, "the same text for the same bytes");
        assert_eq!(harness.store.discard_task(key, &stored).await.expect("an answer"), Discarded::Removed);
        assert_eq!(harness.find(key).await, None);
        assert_eq!(harness.store.raw_task(key).await.expect("an answer"), None);
        assert_eq!(harness.store.discard_task(key, &stored).await.expect("an answer"), Discarded::Missing);
        let read = harness.store.get_task(key).await;
        assert!(matches!(read, Err(Error::NotFound { .. })), "{read:?}");
    }
    let counts = harness.store.counts(Scope::Namespace(Namespace::default())).await.expect("counts").values;
    assert_eq!(TaskState::ALL.map(|state| counts.get(state)).iter().sum::<u64>(), 1, "{counts:?}");
    let renewed = harness
        .store
        .renew(vec![Renewal { lease, progress: None, continuation: None }])
        .await
        .expect("the store answers");
    assert_eq!(renewed, [Renewed::Lost]);
    assert_eq!(harness.lease_keys(5).await, [behind]);
    assert!(harness.enqueue_or_find(task().idempotency_key("once")).await.existing, "unique keys outlive it");
}
