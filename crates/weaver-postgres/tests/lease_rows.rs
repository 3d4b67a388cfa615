//! A lease row goes with the last of its tasks, whatever ended or removed them and whatever was written at
//! the same time.

mod support;

use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use support::OnServer;
use weaver_core::lease::{ContinuationChange, Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::ports::{Admin, PurgeRule, UnreadableRecords};
use weaver_core::prelude::*;
use weaver_core::quarantine::Discarded;
use weaver_core::queue::Committed;
use weaver_testkit::harness::TestStore;

/// A store with one shared lease of this many tasks.
async fn leased(count: u32) -> (OnServer, Vec<Leased>) {
    let place = support::on_server().await;
    place.store.enqueue_batch(vec![NewTask::new("t"); count as usize]).await.expect("the store answers");
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(7));
    let request = LeaseRequest { max: count, slots: count, ..request };
    let leased = place.store.lease(request).await.expect("the store answers");
    assert_eq!((leased.len() as u32, place.lease_rows().await), (count, 1));
    (place, leased)
}

fn keys(leased: &[Leased]) -> Vec<TaskKey> {
    leased.iter().map(|each| each.lease.key.clone()).collect()
}

async fn end(place: &OnServer, leased: &[Leased]) {
    let end = |each: &Leased| {
        let command = Command::Finish { lease: each.lease.clone(), outcome: Outcome::DONE };
        decide(&each.record, command, each.record.updated_at).expect("it holds the lease")
    };
    let answers = place.store.commit(leased.iter().map(end).collect(), None).await;
    let answers = answers.expect("the store answers");
    assert!(answers.iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{answers:?}");
}

/// Removes every task that has ended.
async fn purge(place: &OnServer) -> u32 {
    let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
    place.store.purge_tasks(rule, 100).await.expect("the store answers").count
}

async fn discard(place: &OnServer, key: &TaskKey) {
    let raw = place.store.raw_task(key).await.expect("the store answers").expect("it is there");
    assert_eq!(place.store.discard_task(key, &raw).await.expect("it answers"), Discarded::Removed);
}

/// The renewal of a task whose end another session has written and not yet committed.
async fn renewed_while_it_ends(continuation: Option<ContinuationChange>) -> Renewed {
    let (place, leased) = leased(3).await;
    let mut connection = PgConnection::connect(place.schema.server_url()).await.expect("the server answers");
    let mut ending = connection.begin().await.expect("the server answers");
    let text = format!(
        "SELECT weaver.finish('default', ARRAY[{}], ARRAY[2], ARRAY[0], ARRAY['{:032x}'::uuid], NULL, \
         NULL, NULL, NULL, \
         NULL, NULL, 1::smallint)",
        leased[0].lease.key.id, leased[0].lease.token.0
    );
    ending.execute(place.schema.sql(&text)).await.expect("it is written");
    let renewal = Renewal { continuation, ..Renewal::of(leased[0].lease.clone()) };
    let answers = place.store.renew(vec![renewal]).await.expect("the store answers");
    ending.commit().await.expect("it commits");
    end(&place, &leased[1..]).await;
    place.finish(&keys(&leased)).await;
    assert_eq!(place.lease_rows().await, 0);
    let overdue = place.store.overdue(10).await.expect("the store answers");
    assert!(overdue.is_empty(), "{overdue:?}");
    place.schema.drop(&place.direct).await;
    answers[0]
}

#[tokio::test]
async fn a_task_that_is_renewed_while_its_end_is_written_leaves_no_lease_row() {
    assert_eq!(renewed_while_it_ends(None).await, Renewed::Extended);
}

#[tokio::test]
async fn a_continuation_that_changes_while_the_end_is_written_leaves_no_lease_row() {
    let confirming = ContinuationChange::Confirming { within: Duration::from_secs(50) };
    assert_eq!(renewed_while_it_ends(Some(confirming)).await, Renewed::Busy);
}

#[tokio::test]
async fn a_lease_whose_ended_tasks_were_purged_is_renewed_as_a_whole_and_goes_with_the_last() {
    let (place, leased) = leased(4).await;
    end(&place, &leased[..2]).await;
    assert_eq!(purge(&place).await, 2);
    let renewals = leased[2..].iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let answers = place.store.renew(renewals).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Extended, Renewed::Extended]);
    assert_eq!(place.lease_rows().await, 1, "no second row for those that are left");
    end(&place, &leased[2..]).await;
    assert_eq!(purge(&place).await, 2);
    assert_eq!(place.lease_rows().await, 0, "with its last member");
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn a_purged_task_occupies_no_slot_of_its_queue() {
    let (place, leased) = leased(3).await;
    end(&place, &leased[..2]).await;
    purge(&place).await;
    let queues = place.store.list_queues(&Namespace::default()).await.expect("the store answers");
    assert_eq!(queues[0].occupied, 1);
    place.advance(Duration::from_secs(3600)).await;
    let overdue = place.store.overdue(10).await.expect("the store answers");
    let overdue: Vec<_> = overdue.into_iter().map(|each| each.record.key).collect();
    assert_eq!(overdue, keys(&leased[2..]));
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn a_member_that_is_removed_leaves_the_lease_of_the_others() {
    let (place, leased) = leased(4).await;
    let ids = || place.count("SELECT (cardinality(ids) - cardinality(gone))::bigint FROM weaver.leases");
    end(&place, &leased[..1]).await;
    // One that has ended, and one that runs.
    discard(&place, &leased[0].lease.key).await;
    assert_eq!(ids().await, 3);
    discard(&place, &leased[1].lease.key).await;
    assert_eq!(ids().await, 2);
    let renewals = leased.iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let answers = place.store.renew(renewals).await.expect("the store answers");
    assert_eq!(answers, [Renewed::Lost, Renewed::Lost, Renewed::Extended, Renewed::Extended]);
    assert_eq!((place.lease_rows().await, place.misplaced().await), (1, 0));
    end(&place, &leased[2..3]).await;
    // The last that runs: those before it have ended or were removed.
    discard(&place, &leased[3].lease.key).await;
    assert_eq!(place.lease_rows().await, 0, "with its last member");
    place.schema.drop(&place.direct).await;
}

#[tokio::test]
async fn the_end_of_a_removed_member_changes_nothing() {
    let (place, leased) = leased(2).await;
    discard(&place, &leased[0].lease.key).await;
    let command = Command::Finish { lease: leased[0].lease.clone(), outcome: Outcome::DONE };
    let late = decide(&leased[0].record, command, leased[0].record.updated_at).expect("it held the lease");
    assert_eq!(place.store.commit(vec![late], None).await.expect("it answers"), [Committed::Stale]);
    end(&place, &leased[1..]).await;
    place.finish(&keys(&leased)).await;
    assert_eq!(place.lease_rows().await, 0);
    place.schema.drop(&place.direct).await;
}
