//! `complete_in` in a transaction that stays open: it needs no other connection, and no call about another
//! task waits for it.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::lease::{ContinuationChange, Renewal, Renewed};
use weaver_core::lifecycle::{Command, OverdueReason, Transition, decide};
use weaver_core::ports::Tasks;
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_postgres::{PostgresOptions, PostgresStore};

struct Harness {
    schema: Schema,
    store: PostgresStore,
}

impl Harness {
    async fn new(options: &str) -> Self {
        let schema = Schema::new();
        let options =
            PostgresOptions::parse(&format!("{}{options}", schema.url())).expect("the URL can be read");
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(options, clock).await.expect("the schema can be made");
        Self { schema, store }
    }

    /// A connection of a handler, not of the pool.
    async fn connection(&self) -> PgConnection {
        PgConnection::connect(self.schema.server_url()).await.expect("the server answers")
    }

    /// A shared lease of this many tasks.
    async fn leased(&self, count: usize) -> Vec<Leased> {
        self.store.enqueue_batch(vec![NewTask::new("t"); count]).await.expect("the store answers");
        self.lease(count as u32).await
    }

    async fn lease(&self, max: u32) -> Vec<Leased> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let token = LeaseToken(NEXT.fetch_add(1, Ordering::Relaxed).into());
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        self.store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("the store answers")
    }

    async fn states(&self, leased: &[Leased]) -> Vec<TaskState> {
        let keys: Vec<_> = leased.iter().map(|each| each.lease.key.clone()).collect();
        let found = self.store.get_tasks(&keys).await.expect("the store answers");
        found.into_iter().map(|record| record.expect("it is there").state).collect()
    }

    /// Asserts that every task is in one place.
    async fn done(self) {
        let text = self.schema.sql("SELECT count(*) FROM weaver.misplaced(10)");
        let misplaced: i64 = sqlx::query_scalar(text).fetch_one(self.store.pool()).await.expect("a count");
        assert_eq!(misplaced, 0);
        self.schema.drop(self.store.pool()).await;
    }
}

fn end(leased: &Leased, outcome: Outcome) -> Transition {
    let command = Command::Finish { lease: leased.lease.clone(), outcome };
    decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease")
}

/// What maintenance decides when the lease is over.
fn expiry(leased: &Leased) -> Transition {
    let later = leased.record.updated_at.saturating_add(Duration::from_secs(3600));
    decide(&leased.record, Command::Expire(OverdueReason::Lease), later).expect("it is over by then")
}

#[tokio::test]
async fn with_every_connection_of_the_pool_in_such_a_transaction_each_still_completes() {
    let harness = Harness::new("&pool_max=2&acquire_timeout_ms=2000").await;
    let leased = harness.leased(2).await;
    let pool = harness.store.pool();
    let mut first = pool.begin().await.expect("the server answers");
    let mut second = pool.begin().await.expect("the server answers");
    let mut wakes = Vec::new();
    for (transaction, leased) in [(&mut first, &leased[0]), (&mut second, &leased[1])] {
        let next = vec![NewTask::new("next").serial_key(leased.lease.key.id.to_string())];
        let (_, wake) = harness.store.enqueue_in(transaction, next).await.expect("the task is valid");
        wakes.push(wake);
        let end = harness.store.complete_in(transaction, &leased.lease, None).await;
        assert_eq!(end.expect("it needs no other connection"), Outcome::Committed);
    }
    first.commit().await.expect("it commits");
    second.commit().await.expect("it commits");
    wakes.into_iter().for_each(weaver_postgres::WakeUp::send);
    assert_eq!(harness.states(&leased).await, [TaskState::Succeeded; 2]);
    assert_eq!(harness.lease(10).await.len(), 2);
    harness.done().await;
}

/// The transaction stays open until the end of the test: a call that waited for it would fail.
#[tokio::test]
async fn a_transaction_left_open_after_complete_in_delays_no_other_end_and_no_renewal() {
    let harness = Harness::new("&lock_timeout_ms=300").await;
    let leased = harness.leased(8).await;
    let mut connection = harness.connection().await;
    let mut transaction = connection.begin().await.expect("the server answers");
    harness.store.complete_in(&mut transaction, &leased[0].lease, None).await.expect("it holds the lease");
    let renewals = |of: &[Leased]| of.iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let all = harness.store.renew(renewals(&leased)).await.expect("the store answers");
    assert_eq!(all, [Renewed::Extended; 8]);
    let commit = async |transition| {
        let answers = harness.store.commit(vec![transition], None).await.expect("it does not wait");
        assert!(matches!(answers[..], [Committed::Applied { .. }]), "{answers:?}");
    };
    commit(end(&leased[1], Outcome::DONE)).await;
    commit(end(&leased[2], Outcome::failed("x"))).await;
    commit(end(&leased[3], Outcome::fatal("x"))).await;
    harness.store.cancel(&leased[4].lease.key).await.expect("it does not wait");
    // A part, and one with a continuation: they move to rows of their own.
    let part = harness.store.renew(renewals(&leased[5..7])).await.expect("the store answers");
    assert_eq!(part, [Renewed::Extended; 2]);
    let confirming = ContinuationChange::Confirming { within: Duration::from_secs(50) };
    let renewal = Renewal { continuation: Some(confirming), ..Renewal::of(leased[7].lease.clone()) };
    let special = harness.store.renew(vec![renewal]).await.expect("the store answers");
    assert_eq!(special, [Renewed::Extended]);
    // Of its own task too.
    let own = harness.store.renew(renewals(&leased[..1])).await.expect("the store answers");
    assert_eq!(own, [Renewed::Extended]);
    transaction.commit().await.expect("it commits");
    use TaskState::{Cancelled, Dead, RetryScheduled, Running, Succeeded};
    let expected = [Succeeded, Succeeded, RetryScheduled, Dead, Cancelled, Running, Running, Running];
    assert_eq!(harness.states(&leased).await, expected);
    harness.done().await;
}

#[tokio::test]
async fn another_end_of_the_same_task_waits_and_then_finds_it_completed_or_running() {
    for commits in [true, false] {
        let harness = Harness::new("&lock_timeout_ms=200").await;
        let mut connection = harness.connection().await;
        // A lease of many, and leases of one.
        for count in [3, 1] {
            let leased = harness.leased(count).await;
            let mut transaction = connection.begin().await.expect("the server answers");
            let completed = harness.store.complete_in(&mut transaction, &leased[0].lease, None).await;
            completed.expect("it holds the lease");
            let outcomes = [Outcome::failed("x"), Outcome::fatal("x"), Outcome::DONE];
            let late =
                outcomes.map(|outcome| end(&leased[0], outcome)).into_iter().chain([expiry(&leased[0])]);
            let late = late.map(|late| harness.store.commit(vec![late], None));
            for refused in futures_util::future::join_all(late).await {
                let Err(Error::Unavailable { reason }) = refused else { panic!("{refused:?}") };
                assert!(reason.contains("another transaction has locked the task"), "{reason}");
            }
            let refused = harness.store.cancel(&leased[0].lease.key).await;
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
            assert_eq!(harness.states(&leased[..1]).await, [TaskState::Running]);
            match commits {
                true => transaction.commit().await.expect("it commits"),
                false => transaction.rollback().await.expect("it rolls back"),
            }
            let late = harness.store.commit(vec![end(&leased[0], Outcome::fatal("x"))], None).await;
            let late = late.expect("nothing is locked");
            match commits {
                true => assert_eq!(late, [Committed::Stale]),
                false => assert!(matches!(late[..], [Committed::Applied { .. }]), "{late:?}"),
            }
        }
        harness.done().await;
    }
}

/// The other waits for a lock; nothing is polled but whether it does.
async fn until_blocked(harness: &Harness, pid: i32) {
    let text = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
    loop {
        let blocked: i64 =
            sqlx::query_scalar(text).bind(pid).fetch_one(harness.store.pool()).await.expect("a count");
        if blocked > 0 {
            return;
        }
    }
}

#[tokio::test]
async fn a_completion_that_comes_while_its_task_is_taken_away_waits_and_is_stale() {
    let harness = Harness::new("").await;
    let leased = harness.leased(3).await;
    let mut taking = harness.connection().await;
    let mut taking = taking.begin().await.expect("the server answers");
    let lease = &leased[0].lease;
    let retry = format!(
        "SELECT weaver.retry('default', ARRAY[{}], ARRAY[2], ARRAY[0], ARRAY['{:032x}'::uuid], \
         ARRAY[0], ARRAY['lost'], \
         ARRAY['lost'], ARRAY[0], ARRAY[NULL], 1::smallint)",
        lease.key.id, lease.token.0
    );
    taking.execute(harness.schema.sql(&retry)).await.expect("it is written");
    let mut connection = harness.connection().await;
    let pid: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.expect("a number");
    let mut completing = connection.begin().await.expect("the server answers");
    let mut complete = Box::pin(harness.store.complete_in(&mut completing, lease, None));
    tokio::select! {
        completed = &mut complete => panic!("it does not wait: {completed:?}"),
        () = until_blocked(&harness, pid) => {}
    }
    taking.commit().await.expect("it commits");
    let completed = complete.as_mut().await;
    drop(complete);
    assert!(matches!(completed, Err(Error::Stale { .. })), "{completed:?}");
    completing.rollback().await.expect("it ends");
    assert_eq!(harness.states(&leased[..1]).await, [TaskState::RetryScheduled]);
    harness.done().await;
}

#[tokio::test]
async fn in_a_repeatable_read_transaction_it_completes_or_says_that_the_lease_has_changed() {
    let harness = Harness::new("").await;
    let leased = harness.leased(3).await;
    let mut connection = harness.connection().await;
    for (number, is_retried) in [(0, false), (1, true)] {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
        let mut transaction = connection.begin_with(begin).await.expect("the server answers");
        transaction.execute("SELECT 1").await.expect("the snapshot is taken");
        if is_retried {
            let retry = end(&leased[number], Outcome::failed("x"));
            harness.store.commit(vec![retry], None).await.expect("the store answers");
        }
        let completed = harness.store.complete_in(&mut transaction, &leased[number].lease, None).await;
        match is_retried {
            false => {
                completed.expect("it holds the lease");
                transaction.commit().await.expect("it commits");
            }
            true => {
                let Err(Error::Unavailable { reason }) = completed else { panic!("{completed:?}") };
                assert!(reason.contains("40001"), "{reason}");
                transaction.rollback().await.expect("it ends");
            }
        }
    }
    use TaskState::{RetryScheduled, Running, Succeeded};
    assert_eq!(harness.states(&leased).await, [Succeeded, RetryScheduled, Running]);
    harness.done().await;
}
