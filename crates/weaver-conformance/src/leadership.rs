//! Leader fencing: a leader's decisions are written only under its current epoch, the version of the leader
//! election's document. Outcomes of its workers do not depend on it.

use bytes::Bytes;
use weaver_core::error::Error;
use weaver_core::id::{TaskKey, Version};
use weaver_core::lifecycle::{Command, Grant, Transition};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, Expect};
use weaver_core::queue::{Committed, LeaderEpoch};
use weaver_core::task::TaskState;

use super::cases;
use weaver_testkit::harness::{Harness, seconds, task, worker};

async fn the_current_leader_is_accepted(harness: Harness) {
    let leader = elect(&harness).await;
    let key = harness.enqueue(task()).await;
    let decided = assignment(&harness, &key, &leader).await;
    let answers = harness.store.commit(vec![decided], Some(leader)).await.expect("it is the leader");
    assert_eq!(answers, [Committed::Applied { version: Version(2) }]);
    assert_eq!(harness.record(&key).await.state, TaskState::Assigned);
}

async fn a_deposed_leader_is_fenced_out_and_writes_nothing(harness: Harness) {
    let old = elect(&harness).await;
    let new = elect(&harness).await;
    let enqueued = harness.enqueue_all(vec![task(); 2]).await;
    let mut decided = Vec::new();
    for key in &enqueued {
        decided.push(assignment(&harness, key, &old).await);
    }
    let refusal = harness.store.commit(decided, Some(old.clone())).await.expect_err("it was deposed");
    assert_eq!(refusal, Error::Deposed { epoch: old.epoch, current: new.epoch });
    for key in &enqueued {
        assert_eq!(harness.record(key).await.version, Version(1));
    }
}

async fn a_leader_that_was_never_elected_is_refused(harness: Harness) {
    let key = harness.enqueue(task()).await;
    let leader = LeaderEpoch { document: document(), epoch: Version(1) };
    let decided = assignment(&harness, &key, &leader).await;
    let refusal = harness.store.commit(vec![decided], Some(leader)).await.expect_err("there is no leader");
    assert_eq!(refusal, Error::Deposed { epoch: Version(1), current: Version(0) });
    assert_eq!(harness.record(&key).await.state, TaskState::Queued);
}

async fn a_leader_that_has_resigned_is_refused(harness: Harness) {
    let leader = elect(&harness).await;
    let key = harness.enqueue(task()).await;
    harness.store.delete_document(&document(), Expect::Version(leader.epoch)).await.expect("it was there");
    let decided = assignment(&harness, &key, &leader).await;
    assert!(matches!(harness.store.commit(vec![decided], Some(leader)).await, Err(Error::Deposed { .. })));
    assert_eq!(harness.record(&key).await.state, TaskState::Queued);
}

async fn a_deposed_leader_is_fenced_out_even_with_an_empty_batch(harness: Harness) {
    let old = elect(&harness).await;
    elect(&harness).await;
    assert!(matches!(harness.store.commit(vec![], Some(old)).await, Err(Error::Deposed { .. })));
}

async fn a_new_leader_does_not_kill_running_work(harness: Harness) {
    let leader = elect(&harness).await;
    let key = harness.enqueue(task()).await;
    let decided = assignment(&harness, &key, &leader).await;
    harness.store.commit(vec![decided], Some(leader.clone())).await.expect("it is the leader");
    let grant = Grant { worker: worker("v"), token: harness.token(), ttl: seconds(30) };
    harness.apply(&key, Command::Start(grant)).await;
    elect(&harness).await;
    let lease = harness.record(&key).await.current_lease().expect("it runs");
    assert_eq!(lease.epoch, leader.term());
    harness.apply(&key, Command::Finish { lease, outcome: Outcome::DONE }).await;
}

async fn a_new_leader_does_not_keep_an_assigned_worker_from_starting(harness: Harness) {
    let leader = elect(&harness).await;
    let key = harness.enqueue(task()).await;
    let decided = assignment(&harness, &key, &leader).await;
    harness.store.commit(vec![decided], Some(leader)).await.expect("it is the leader");
    elect(&harness).await;
    let grant = Grant { worker: worker("v"), token: harness.token(), ttl: seconds(30) };
    harness.apply(&key, Command::Start(grant)).await;
}

async fn leaders_of_two_documents_do_not_depose_each_other(harness: Harness) {
    let leader = elect(&harness).await;
    let other = DocumentKey::new(Namespace::default(), "leader", "another");
    for _ in 0..2 {
        harness.store.put_document(&other, Bytes::new(), Expect::Anything, None).await.expect("it is valid");
    }
    let key = harness.enqueue(task()).await;
    let decided = assignment(&harness, &key, &leader).await;
    harness.store.commit(vec![decided], Some(leader)).await.expect("it is the leader");
}

fn document() -> DocumentKey {
    DocumentKey::new(Namespace::default(), "leader", "scheduler")
}

/// Elects a leader.
async fn elect(harness: &Harness) -> LeaderEpoch {
    let document = document();
    let put = harness.store.put_document(&document, Bytes::from_static(b"me"), Expect::Anything, None);
    let epoch = put.await.expect("the document is valid");
    LeaderEpoch { document, epoch }
}

async fn assignment(harness: &Harness, key: &TaskKey, leader: &LeaderEpoch) -> Transition {
    harness.decided(key, Command::Assign { worker: worker("v"), epoch: leader.term() }).await
}

cases![
    the_current_leader_is_accepted,
    a_deposed_leader_is_fenced_out_and_writes_nothing,
    a_leader_that_was_never_elected_is_refused,
    a_leader_that_has_resigned_is_refused,
    a_deposed_leader_is_fenced_out_even_with_an_empty_batch,
    a_new_leader_does_not_kill_running_work,
    a_new_leader_does_not_keep_an_assigned_worker_from_starting,
    leaders_of_two_documents_do_not_depose_each_other,
];
