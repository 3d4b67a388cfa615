//! What users of a queue in PostgreSQL expect: enqueue and completion in their own transactions, and no call
//! that waits for another transaction's lock.

mod support;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use support::Schema;
use weaver_core::error::Error;
use weaver_core::id::{Epoch, LeaseToken};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::Tasks;
use weaver_core::queue::{Committed, Interest, Queue, QueueExt, Wake};
use weaver_core::task::{NewTask, TaskState};
use weaver_postgres::{PostgresOptions, PostgresStore};

struct Harness {
    schema: Schema,
    store: PostgresStore,
}

impl Harness {
    async fn new() -> Self {
        Self::with("").await
    }

    async fn with(options: &str) -> Self {
        let schema = Schema::new();
        let options =
            PostgresOptions::parse(&format!("{}{options}", schema.url())).expect("the URL can be read");
        let clock = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(options, clock).await.expect("the schema can be made");
        Self { schema, store }
    }

    async fn connection(&self) -> PgConnection {
        PgConnection::connect(self.schema.server_url()).await.expect("the server answers")
    }

    async fn lease(&self, max: u32) -> Vec<Leased> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let token = LeaseToken(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
        let worker = WorkerId::new("w").expect("a name");
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, token);
        self.store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("the store answers")
    }

    async fn state(&self, leased: &Leased) -> TaskState {
        let found =
            self.store.get_tasks(std::slice::from_ref(&leased.lease.key)).await.expect("the store answers");
        found[0].as_ref().expect("it is there").state
    }
}

#[tokio::test]
async fn a_task_enqueued_in_a_transaction_exists_only_if_it_commits() {
    let harness = Harness::new().await;
    let mut connection = harness.connection().await;
    for commits in [false, true] {
        let mut transaction = connection.begin().await.expect("the server answers");
        let (enqueued, wake) = harness
            .store
            .enqueue_in(&mut transaction, vec![NewTask::new("t")])
            .await
            .expect("the task is valid");
        assert_eq!(enqueued.len(), 1);
        assert!(harness.lease(10).await.is_empty(), "it is not visible before the commit");
        match commits {
            true => transaction.commit().await.expect("it commits"),
            false => transaction.rollback().await.expect("it rolls back"),
        }
        wake.send();
        assert_eq!(harness.lease(10).await.len(), usize::from(commits));
    }
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_wake_up_sent_after_the_commit_reaches_a_waiting_worker() {
    let harness = Harness::new().await;
    let (namespace, queues) = (Namespace::default(), vec![QueueName::default()]);
    let interest = Interest::Work { namespace, queues, types: None, fragile: true };
    let wait = harness.store.wait(interest, Duration::from_secs(60));
    let enqueue = async {
        let mut connection = harness.connection().await;
        let mut transaction = connection.begin().await.expect("the server answers");
        let (_, wake) =
            harness.store.enqueue_in(&mut transaction, vec![NewTask::new("t")]).await.expect("valid");
        transaction.commit().await.expect("it commits");
        wake.send();
    };
    let (woken, ()) = tokio::join!(wait, enqueue);
    assert_eq!(woken.expect("the store answers"), Wake::Ready);
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_completion_commits_with_the_handlers_writes_or_not_at_all() {
    let harness = Harness::new().await;
    harness.store.enqueue_batch(vec![NewTask::new("t")]).await.expect("the store answers");
    let leased = harness.lease(1).await.remove(0);
    let mut connection = harness.connection().await;
    for commits in [false, true] {
        let mut transaction = connection.begin().await.expect("the server answers");
        let answer = harness
            .store
            .complete_in(&mut transaction, &leased.lease, Some("42".into()))
            .await
            .expect("the store answers");
        assert_eq!(answer, Outcome::Committed);
        match commits {
            true => transaction.commit().await.expect("it commits"),
            false => transaction.rollback().await.expect("it rolls back"),
        }
        let expected = if commits { TaskState::Succeeded } else { TaskState::Running };
        assert_eq!(harness.state(&leased).await, expected);
    }
    // The runtime's report afterwards is a repetition, and a lost lease completes nothing.
    let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
    let report = decide(&leased.record, command, leased.record.updated_at).expect("it held the lease");
    assert_eq!(
        harness.store.commit(vec![report], None).await.expect("it answers"),
        [Committed::AlreadyApplied]
    );
    let again = harness.store.complete_in(&mut connection, &leased.lease, None).await;
    assert!(matches!(again, Err(Error::Stale { .. })), "{again:?}");
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_completion_under_another_epoch_or_with_too_large_a_result_is_refused() {
    let harness = Harness::new().await;
    harness.store.enqueue_batch(vec![NewTask::new("t")]).await.expect("the store answers");
    let leased = harness.lease(1).await.remove(0);
    let mut connection = harness.connection().await;
    let of_a_leader = Lease { epoch: Epoch(7), ..leased.lease.clone() };
    let refused = harness.store.complete_in(&mut connection, &of_a_leader, None).await;
    assert!(matches!(refused, Err(Error::Stale { .. })), "{refused:?}");
    let large = vec![0; weaver_core::outcome::RESULT_MAX_BYTES + 1].into();
    let refused = harness.store.complete_in(&mut connection, &leased.lease, Some(large)).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert_eq!(harness.state(&leased).await, TaskState::Running);
    // The same for reported ends: the epoch is part of the fencing condition.
    for outcome in [Outcome::DONE, Outcome::failed("x"), Outcome::fatal("x")] {
        let command = Command::Finish { lease: leased.lease.clone(), outcome };
        let mut end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
        end.expected_epoch = Some(Epoch(7));
        assert_eq!(harness.store.commit(vec![end], None).await.expect("it answers"), [Committed::Stale]);
    }
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn plain_sql_enqueues_and_wakes_workers() {
    let harness = Harness::new().await;
    let (namespace, queues) = (Namespace::default(), vec![QueueName::new("mail").expect("a name")]);
    let interest = Interest::Work { namespace, queues, types: None, fragile: true };
    let wait = harness.store.wait(interest, Duration::from_secs(60));
    let enqueue = async {
        let text = "SELECT weaver.enqueue('send', '{\"to\": 1}', queue => 'mail', priority => 2, \
                    options => '{\"idempotency_key\": \"k\"}')";
        let mut connection = harness.connection().await;
        let first: i64 =
            sqlx::query_scalar(harness.schema.sql(text)).fetch_one(&mut connection).await.expect("valid");
        let again: i64 =
            sqlx::query_scalar(harness.schema.sql(text)).fetch_one(&mut connection).await.expect("valid");
        assert_eq!(first, again, "the key makes them one");
    };
    let (woken, ()) = tokio::join!(wait, enqueue);
    assert_eq!(woken.expect("the store answers"), Wake::Ready);
    let mut refused = harness.connection().await;
    let text = "SELECT weaver.enqueue('send', priority => 11)";
    assert!(refused.execute(harness.schema.sql(text)).await.is_err(), "a priority out of range is refused");
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_renewal_does_not_wait_for_another_transactions_lock() {
    let harness = Harness::new().await;
    harness.store.enqueue_batch(vec![NewTask::new("t"), NewTask::new("t")]).await.expect("the store answers");
    let leased = harness.lease(2).await;
    let mut foreign = harness.connection().await;
    let mut transaction = foreign.begin().await.expect("the server answers");
    // One lease call got both; the handler of the first completes it in a transaction that stays open.
    let completed = harness.store.complete_in(&mut transaction, &leased[0].lease, None).await;
    completed.expect("it holds the lease");
    let renewals = leased.iter().map(|each| Renewal::of(each.lease.clone())).collect();
    let answers = tokio::time::timeout(Duration::from_secs(2), harness.store.renew(renewals)).await;
    assert_eq!(answers.expect("it does not wait").expect("it answers"), [Renewed::Extended; 2]);
    transaction.rollback().await.expect("it ends");
    // A task with a row of its own: the transaction has locked that.
    harness.store.enqueue_batch(vec![NewTask::new("t").serial_key("k")]).await.expect("the store answers");
    let alone = harness.lease(1).await.remove(0);
    let mut transaction = foreign.begin().await.expect("the server answers");
    harness.store.complete_in(&mut transaction, &alone.lease, None).await.expect("it holds the lease");
    let answers = harness.store.renew(vec![Renewal::of(alone.lease.clone())]).await.expect("it answers");
    assert_eq!(answers, [Renewed::Busy]);
    transaction.rollback().await.expect("it ends");
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn a_cancel_behind_a_foreign_lock_fails_after_the_lock_timeout() {
    let harness = Harness::with("&lock_timeout_ms=200").await;
    harness.store.enqueue_batch(vec![NewTask::new("t")]).await.expect("the store answers");
    let leased = harness.lease(1).await.remove(0);
    let mut foreign = harness.connection().await;
    let mut transaction = foreign.begin().await.expect("the server answers");
    transaction
        .execute(harness.schema.sql("SELECT FROM weaver.leases FOR UPDATE"))
        .await
        .expect("it is there");
    let refused = harness.store.cancel(&leased.lease.key).await.expect_err("it is locked");
    let Error::Unavailable { reason } = refused else { panic!("{refused:?}") };
    assert!(reason.contains("another transaction has locked the task"), "{reason}");
    transaction.rollback().await.expect("it ends");
    harness.store.cancel(&leased.lease.key).await.expect("now it is free");
    harness.schema.drop(harness.store.pool()).await;
}

#[tokio::test]
async fn an_enqueue_that_commits_late_does_not_break_the_order_of_its_key() {
    let harness = Harness::new().await;
    let keyed = || vec![NewTask::new("t").serial_key("k")];
    let mut connection = harness.connection().await;
    let mut late = connection.begin().await.expect("the server answers");
    let (first, wake) = harness.store.enqueue_in(&mut late, keyed()).await.expect("the task is valid");
    let second = harness.store.enqueue_batch(keyed());
    let commit = async {
        // The second enqueue waits for the first to commit: no worker can lease past it meanwhile.
        assert!(harness.lease(10).await.is_empty());
        late.commit().await.expect("it commits");
        wake.send();
    };
    let (second, ()) = tokio::join!(second, commit);
    let second = second.expect("the store answers").remove(0).expect("it is stored");
    assert!(first[0].key.id < second.key.id);
    let leased = harness.lease(10).await;
    assert_eq!(leased.len(), 1, "one of the key");
    assert_eq!(leased[0].lease.key, first[0].key);
    harness.schema.drop(harness.store.pool()).await;
}
