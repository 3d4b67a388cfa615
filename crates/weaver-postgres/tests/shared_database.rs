//! Other clients of the same database: a transaction that stays open, a node whose clock is wrong, retention
//! under load.

mod support;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, Transition, decide};
use weaver_core::ports::{Admin, PurgeRule, Tasks};
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_core::time::Monotonic;
use weaver_postgres::PostgresStore;
use weaver_runtime::{LocalSource, SystemClock, WorkSource};

async fn open(schema: &Schema, clock: Arc<dyn Clock>) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(schema.options(), clock).await.expect("the schema can be made"))
}

async fn lease(store: &PostgresStore, token: u128, max: u32, ttl: Duration) -> Vec<Leased> {
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
    store.lease(LeaseRequest { max, slots: max, ttl, ..request }).await.expect("the store answers")
}

fn end(leased: &Leased, outcome: Outcome) -> Transition {
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease")
}

async fn states(store: &PostgresStore, leased: &[Leased]) -> Vec<TaskState> {
    let keys: Vec<_> = leased.iter().map(|each| each.lease.key.clone()).collect();
    let found = store.get_tasks(&keys).await.expect("the store answers");
    found.into_iter().map(|record| record.expect("it is there").state).collect()
}

const TTL: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_foreign_transaction_delays_the_one_task_it_locks_and_no_other() {
    let schema = Schema::new();
    let store = open(&schema, Arc::new(SystemClock::new())).await;
    store.enqueue_batch(vec![NewTask::new("t"); 12]).await.expect("the store answers");
    let leased = lease(&store, 1, 10, TTL).await;
    let mut foreign = PgConnection::connect(schema.server_url()).await.expect("the server answers");
    let mut transaction = foreign.begin().await.expect("the server answers");
    // An open snapshot, a lock on a waiting task, and a running one that the transaction completes.
    let waiting = leased[9].lease.key.id.0 + 1;
    let lock = format!("SELECT FROM weaver.ready WHERE id = {waiting} FOR UPDATE");
    transaction.execute(schema.sql(&lock)).await.expect("the row is there");
    let completed = store.complete_in(&mut transaction, &leased[0].lease, None).await;
    completed.expect("it holds the lease");
    // Renewals and lease calls skip locked rows.
    let renewals = leased.iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let renewed = store.renew(renewals).await.expect("the store answers");
    assert!(renewed.iter().all(|answer| *answer == Renewed::Extended), "{renewed:?}");
    let more = lease(&store, 2, 10, TTL).await;
    assert_eq!(more.len(), 1, "the unlocked one");
    // Of a batch of ends of every kind, the unlocked ones are stored, and the caller gets an error for the
    // rest.
    let outcome = |number: usize| match number % 3 {
        0 => Outcome::DONE,
        1 => Outcome::fatal("x"),
        _ => Outcome::failed("x"),
    };
    let ends: Vec<_> = leased.iter().enumerate().map(|(at, each)| end(each, outcome(at))).collect();
    let answers = store.commit(ends.clone(), None).await;
    assert!(matches!(answers, Err(Error::Unavailable { .. })), "{answers:?}");
    let seen = states(&store, &leased).await;
    assert_eq!(seen[0], TaskState::Running);
    assert!(seen[1..].iter().all(|state| *state != TaskState::Running), "{seen:?}");
    // Maintenance goes on, and changes are read while the foreign snapshot is open.
    let mut changes = 0;
    let begin = store.changes(None, 1000).await.expect("the store answers");
    let (weaver_core::event::Changes::Next { next, .. } | weaver_core::event::Changes::Resync { next }) =
        begin;
    store.commit(vec![end(&more[0], Outcome::DONE)], None).await.expect("the store answers");
    if let weaver_core::event::Changes::Next { items, .. } =
        store.changes(Some(next), 1000).await.expect("the store answers")
    {
        changes = items.len();
    }
    assert_eq!(changes, 1);
    LocalSource::new(store.clone()).maintain(Default::default()).await.expect("the store answers");
    transaction.rollback().await.expect("it ends");
    let answers = store.commit(ends, None).await.expect("now it is free");
    assert!(!answers.contains(&Committed::Stale), "{answers:?}");
    schema.drop(store.pool()).await;
}

/// A clock ten minutes ahead of the other nodes', or behind.
#[derive(Debug)]
struct Wrong {
    clock: SystemClock,
    ahead: bool,
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let (now, off) = (self.clock.now(), 600_000_000);
        Timestamp::from_micros(if self.ahead { now.as_micros() + off } else { now.as_micros() - off })
    }
    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }
    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.clock.sleep_until(deadline)
    }
}

#[tokio::test]
async fn a_node_whose_clock_is_ten_minutes_off_starts_nothing_early_and_takes_nothing_away() {
    for ahead in [true, false] {
        let schema = Schema::new();
        let right = open(&schema, Arc::new(SystemClock::new())).await;
        let wrong = open(&schema, Arc::new(Wrong { clock: SystemClock::new(), ahead })).await;
        let soon = NewTask::new("t").delay(Duration::from_secs(300));
        right.enqueue_batch(vec![NewTask::new("t"), NewTask::new("t"), soon]).await.expect("it answers");
        let held = lease(&right, 1, 1, TTL).await.remove(0);
        let taken = lease(&wrong, 2, 10, TTL).await;
        assert_eq!(taken.len(), 1, "what is due in five minutes is not due");
        // Its leases last as long as those of other nodes, by the server's clock.
        let of_it = taken[0].record.lease.as_ref().expect("it runs");
        let of_right = held.record.lease.as_ref().expect("it runs");
        assert_eq!(of_it.expires_at.since(of_it.started_at), TTL);
        assert!(of_it.started_at.since(of_right.started_at) < Duration::from_secs(60));
        // Its maintenance expires no lease, and its retries are due when they should be.
        let done =
            LocalSource::new(wrong.clone()).maintain(Default::default()).await.expect("the store answers");
        assert_eq!(done, weaver_runtime::Maintained::default());
        wrong.commit(vec![end(&taken[0], Outcome::failed("x"))], None).await.expect("it answers");
        right.commit(vec![end(&held, Outcome::DONE)], None).await.expect("it answers");
        let key = taken[0].lease.key.clone();
        let failed = right.get_tasks(&[key]).await.expect("it answers").remove(0).expect("it is there");
        assert!(
            failed.ready_at.since(failed.updated_at) <= Duration::from_secs(15),
            "the first delay of the curve"
        );
        assert_eq!(states(&right, &[held]).await, [TaskState::Succeeded]);
        schema.drop(right.pool()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_under_load_purges_only_old_tasks_in_small_batches() {
    const ROUNDS: u128 = 40;
    const SMALL: u32 = 50;
    let schema = Schema::new();
    let store = open(&schema, Arc::new(SystemClock::new())).await;
    // More than one batch is old before the first purge.
    let heap = tokio::sync::Notify::new();
    let work = async {
        let mut left = Vec::new();
        for round in 0..ROUNDS {
            if round == u128::from(SMALL) / 5 {
                heap.notify_one();
            }
            store.enqueue_batch(vec![NewTask::new("t"); 20]).await.expect("the store answers");
            let leased = lease(&store, round + 1, 15, TTL).await;
            let (ended, running) = leased.split_at(10);
            let ends: Vec<_> = ended.iter().map(|each| end(each, Outcome::DONE)).collect();
            let made = store.commit(ends, None).await.expect("the store answers");
            assert!(made.iter().all(|answer| matches!(answer, Committed::Applied { .. })), "{made:?}");
            left.extend_from_slice(running);
        }
        left
    };
    let purge = async {
        heap.notified().await;
        let mut purged = 0;
        while purged < ROUNDS as u32 * 10 {
            let rule = PurgeRule { namespace: None, queue: None, state: None, finished_for: Duration::ZERO };
            let count = store.purge_tasks(rule, SMALL).await.expect("the store answers").count;
            assert!(count <= SMALL, "never more than the limit at once");
            purged += count;
        }
        purged
    };
    let (left, purged) = tokio::join!(work, purge);
    assert_eq!(purged, ROUNDS as u32 * 10, "all that had finished");
    let seen = states(&store, &left).await;
    assert!(seen.iter().all(|state| *state == TaskState::Running), "what runs stays");
    let counts =
        store.counts(weaver_core::ports::Scope::Namespace(Namespace::default())).await.expect("it answers");
    let kept = ROUNDS as u64 * 20 - u64::from(purged);
    assert_eq!(TaskState::ALL.iter().map(|state| counts.values.get(*state)).sum::<u64>(), kept);
    schema.drop(store.pool()).await;
}
