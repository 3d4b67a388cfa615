//! Lease expiry without a store clock: a lease expires when an observer sees no renewal for its whole TTL, on
//! the observer's own monotonic clock.

mod support;

use std::sync::Arc;
use std::time::Duration;

use weaver_core::clock::ManualClock;
use weaver_core::event::Changes;
use weaver_core::id::LeaseToken;
use weaver_core::lease::{LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::queue::{Committed, Queue, QueueExt};
use weaver_core::task::{NewTask, TaskState};
use weaver_core::time::Timestamp;
use weaver_dynamodb::DynamoStore;

const SECOND: Duration = Duration::from_secs(1);

/// A process: a store with its own clock.
struct Process {
    store: DynamoStore,
    clock: ManualClock,
}

/// Two processes on one database; the second one's wall clock is an hour ahead.
async fn two() -> (Process, Process) {
    let database = support::database();
    let process = async |micros: i64| {
        let clock = ManualClock::new(Timestamp::from_micros(micros));
        Process { store: support::open(&database, Arc::new(clock.clone())).await, clock }
    };
    let start = 1_767_225_600_000_000;
    (process(start).await, process(start + 3_600_000_000).await)
}

fn request(token: u128) -> LeaseRequest {
    let worker = WorkerId::new("w").expect("as set up");
    LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token))
}

async fn leased(process: &Process) -> Leased {
    process.store.enqueue(NewTask::new("t")).await.expect("as set up");
    process.store.lease(request(1)).await.expect("as set up").remove(0)
}

#[tokio::test]
async fn an_observer_waits_one_whole_lease_whatever_its_wall_clock_shows() {
    let (worker, observer) = two().await;
    let leased = leased(&worker).await;
    assert!(
        observer.store.overdue(10).await.expect("as set up").is_empty(),
        "an hour late by its wall clock"
    );
    observer.clock.advance(29 * SECOND);
    assert!(observer.store.overdue(10).await.expect("as set up").is_empty());
    observer.clock.advance(SECOND);
    let overdue = observer.store.overdue(10).await.expect("as set up");
    assert_eq!((overdue.len(), &overdue[0].record.key), (1, &leased.lease.key));
}

#[tokio::test]
async fn a_renewal_restarts_the_wait() {
    let (worker, observer) = two().await;
    let leased = leased(&worker).await;
    observer.store.overdue(10).await.expect("as set up");
    observer.clock.advance(29 * SECOND);
    assert_eq!(
        worker.store.renew(vec![Renewal::of(leased.lease)]).await.expect("as set up"),
        [Renewed::Extended]
    );
    observer.clock.advance(SECOND);
    assert!(observer.store.overdue(10).await.expect("as set up").is_empty(), "it was renewed since");
    observer.clock.advance(30 * SECOND);
    assert_eq!(observer.store.overdue(10).await.expect("as set up").len(), 1);
}

#[tokio::test]
async fn a_renewal_between_the_overdue_scan_and_the_write_keeps_the_lease() {
    let (worker, observer) = two().await;
    let leased = leased(&worker).await;
    observer.store.overdue(10).await.expect("as set up");
    observer.clock.advance(31 * SECOND);
    let overdue = observer.store.overdue(10).await.expect("as set up").remove(0);
    assert_eq!(
        worker.store.renew(vec![Renewal::of(leased.lease)]).await.expect("as set up"),
        [Renewed::Extended]
    );
    let lost = decide(&overdue.record, Command::Expire(OverdueReason::Lease), overdue.record.updated_at)
        .expect("as set up");
    assert_eq!(observer.store.commit(vec![lost], None).await.expect("as set up"), [Committed::Stale]);
}

#[tokio::test]
async fn a_task_lost_by_one_process_is_finished_by_another_and_the_first_is_refused() {
    let (worker, observer) = two().await;
    let old = leased(&worker).await;
    observer.store.overdue(10).await.expect("as set up");
    observer.clock.advance(30 * SECOND);
    let overdue = observer.store.overdue(10).await.expect("as set up").remove(0);
    let lost = decide(&overdue.record, Command::Expire(OverdueReason::Lease), overdue.record.updated_at)
        .expect("as set up");
    assert!(matches!(
        observer.store.commit(vec![lost], None).await.expect("as set up")[0],
        Committed::Applied { .. }
    ));
    let new = observer.store.lease(request(2)).await.expect("as set up").remove(0);
    assert_eq!(new.record.losses, 1);
    let end = |leased: &Leased| {
        let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
        decide(&leased.record, command, leased.record.updated_at).expect("as set up")
    };
    assert_eq!(
        worker.store.renew(vec![Renewal::of(old.lease.clone())]).await.expect("as set up"),
        [Renewed::Lost]
    );
    assert_eq!(worker.store.commit(vec![end(&old)], None).await.expect("as set up"), [Committed::Stale]);
    assert!(matches!(
        observer.store.commit(vec![end(&new)], None).await.expect("as set up")[0],
        Committed::Applied { .. }
    ));
    assert_eq!(worker.store.get_task(&new.lease.key).await.expect("as set up").state, TaskState::Succeeded);
}

#[tokio::test]
async fn a_lease_call_repeated_in_another_process_returns_what_the_first_granted() {
    let (first, second) = two().await;
    let granted = leased(&first).await;
    second.store.enqueue(NewTask::new("t")).await.expect("as set up");
    let again = second.store.lease(request(1)).await.expect("as set up");
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].lease, granted.lease);
}

#[tokio::test]
async fn readers_of_changes_resync_only_when_another_process_writes() {
    let (reader, writer) = two().await;
    let Changes::Next { next: start, .. } = reader.store.changes(None, 10).await.expect("as set up") else {
        panic!("there were no writes yet");
    };
    reader.clock.advance(SECOND);
    reader.store.enqueue(NewTask::new("t")).await.expect("as set up");
    let Changes::Next { items, next } = reader.store.changes(Some(start), 10).await.expect("as set up")
    else {
        panic!("only this process has written");
    };
    assert_eq!(items.len(), 1);
    writer.store.enqueue(NewTask::new("t")).await.expect("as set up");
    reader.clock.advance(SECOND);
    let answer = reader.store.changes(Some(next), 10).await.expect("as set up");
    assert!(matches!(answer, Changes::Resync { .. }), "{answer:?}");
}

#[tokio::test]
async fn a_pause_in_one_process_holds_in_another() {
    use weaver_core::ports::{Admin, Expect, QueueSettings};
    let (one, other) = two().await;
    one.store.enqueue(NewTask::new("t")).await.expect("as set up");
    let paused = QueueSettings { paused: true, max_running: None, ..QueueSettings::default() };
    one.store
        .put_queue(&Namespace::default(), &QueueName::default(), paused, Expect::Anything)
        .await
        .expect("as set up");
    assert!(other.store.lease(request(1)).await.expect("as set up").is_empty());
}
