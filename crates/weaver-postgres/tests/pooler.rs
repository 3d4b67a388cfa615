//! Behind a real PgBouncer in transaction mode, where two statements of one client may reach two connections.
//! The whole conformance suite runs there with `WEAVER_TEST_POSTGRES_POOLER=1`.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Schema;
use weaver_core::clock::ManualClock;
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::ports::{Document, DocumentKey, Documents, Expect, Journal, Scope, StreamKey, Tasks};
use weaver_core::prelude::*;
use weaver_core::queue::{Committed, Interest, Wake};
use weaver_postgres::{OpenError, PostgresOptions, PostgresStore};
use weaver_runtime::SystemClock;
use weaver_testkit::services::pooler::Pooler;

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    let options = PostgresOptions::parse(url).expect("the URL can be read");
    PostgresStore::open(options, Arc::new(SystemClock::new())).await
}

/// A client that makes every kind of call: single statements, transitions in a transaction, documents,
/// streams.
async fn live(store: &PostgresStore, client: u64, turn: u64) {
    let namespace = Namespace::new(format!("n{client}")).expect("a name");
    let task = |name: &str| {
        NewTask::new("t").namespace(namespace.as_str().to_owned()).task_group_id(name.to_owned())
    };
    let enqueued = store.enqueue_batch(vec![task("kept"), task("dropped")]).await.expect("it is stored");
    let keys: Vec<TaskKey> = enqueued.into_iter().map(|each| each.expect("it is stored").key).collect();
    store.cancel(&keys[1]).await.expect("it is not locked");
    let worker = WorkerId::new("w").expect("a name");
    let token = LeaseToken((client * 1000 + turn + 1).into());
    let request = LeaseRequest::new(namespace.clone(), QueueName::default(), worker, token);
    let leased = store.lease(request).await.expect("it answers").pop().expect("it is due");
    assert_eq!(leased.lease.key, keys[0]);
    let renewed = store.renew(vec![Renewal::of(leased.lease.clone())]).await.expect("it answers");
    assert_eq!(renewed, [Renewed::Extended]);
    let stream = StreamKey::new(namespace.clone(), "s");
    store.append_entries(&stream, &[bytes(turn)]).await.expect("it is stored");
    let key = DocumentKey::new(namespace.clone(), "pool", "one");
    let document = store.get_document(&key).await.expect("it answers");
    let expect = document.as_ref().map_or(Expect::Absent, |found: &Document| Expect::Version(found.version));
    store.put_document(&key, bytes(turn), expect, None).await.expect("no other client writes it");
    let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
    let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
    let made = store.commit(vec![end], None).await.expect("it answers");
    assert!(matches!(made[..], [Committed::Applied { .. }]), "{made:?}");
    let found = store.get_tasks(&keys).await.expect("it answers");
    let states: Vec<_> = found.into_iter().map(|found| found.expect("it is there").state).collect();
    assert_eq!(states, [TaskState::Succeeded, TaskState::Cancelled]);
}

fn bytes(turn: u64) -> bytes::Bytes {
    bytes::Bytes::from(turn.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_share_few_connections_and_no_statement_reaches_the_wrong_one() {
    const TURNS: u64 = 12;
    let schema = Schema::new();
    let pooler = Pooler::in_front_of(schema.server_url(), 3);
    let url = schema.url_through(&pooler);
    let (one, two) = tokio::join!(open(&url), open(&url));
    let nodes = [Arc::new(one.expect("it opens")), Arc::new(two.expect("it opens"))];
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..8 {
        let node = Arc::clone(&nodes[client as usize % 2]);
        clients.spawn(async move {
            for turn in 0..TURNS {
                live(&node, client, turn).await;
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.expect("no client failed");
    }
    let direct = open(&schema.url()).await.expect("it opens");
    for client in 0..8 {
        let namespace = Namespace::new(format!("n{client}")).expect("a name");
        let counts = direct.counts(Scope::Namespace(namespace)).await.expect("it answers");
        assert_eq!(counts.values.get(TaskState::Succeeded), TURNS, "client {client}");
    }
    schema.drop(direct.pool()).await;
}

#[tokio::test]
async fn handlers_whose_transactions_hold_every_connection_of_the_pooler_still_complete() {
    let schema = Schema::new();
    let pooler = Pooler::in_front_of(schema.server_url(), 2);
    let store = open(&schema.url_through(&pooler)).await.expect("it opens");
    store.enqueue_batch(vec![NewTask::new("t"); 2]).await.expect("it is stored");
    let worker = WorkerId::new("w").expect("a name");
    let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(1));
    let leased = store.lease(LeaseRequest { max: 2, slots: 2, ..request }).await.expect("it answers");
    let mut transactions = Vec::new();
    for _ in &leased {
        let mut transaction = store.pool().begin().await.expect("the server answers");
        // From its first statement on it has a connection of the server.
        let (_, wake) =
            store.enqueue_in(&mut transaction, vec![NewTask::new("next")]).await.expect("it is valid");
        transactions.push((transaction, wake));
    }
    for ((transaction, _), held) in transactions.iter_mut().zip(&leased) {
        store.complete_in(transaction, &held.lease, None).await.expect("it needs no other connection");
    }
    for (transaction, wake) in transactions {
        transaction.commit().await.expect("it commits");
        wake.send();
    }
    let counts = store.counts(Scope::Namespace(Namespace::default())).await.expect("it answers");
    let counted = [TaskState::Succeeded, TaskState::Queued].map(|state| counts.values.get(state));
    assert_eq!(counted, [2, 2]);
    schema.drop(&sqlx::PgPool::connect(schema.server_url()).await.expect("the server answers")).await;
}

#[tokio::test]
async fn work_enqueued_through_a_pooler_wakes_another_node_at_once() {
    let schema = Schema::new();
    let pooler = Pooler::in_front_of(schema.server_url(), 2);
    let url = schema.url_through(&pooler);
    let enqueuing = open(&url).await.expect("it opens");
    // Its clock stands still, so it never polls: only the hint can wake it.
    let options = PostgresOptions::parse(&url).expect("the URL can be read");
    let waiting = PostgresStore::open(options, Arc::new(ManualClock::default())).await.expect("it opens");
    let interest = Interest::Work {
        namespace: Namespace::default(),
        queues: vec![QueueName::default()],
        types: None,
        fragile: true,
    };
    let wait = waiting.wait(interest, Duration::from_secs(3600));
    let enqueue = async {
        let tasks = enqueuing.enqueue_batch(vec![NewTask::new("t")]).await.expect("it answers");
        assert!(tasks[0].is_ok());
    };
    let (woken, ()) = tokio::join!(wait, enqueue);
    assert_eq!(woken.expect("it answers"), Wake::Ready);
    schema.drop(&sqlx::PgPool::connect(schema.server_url()).await.expect("the server answers")).await;
}

#[tokio::test]
async fn without_pooler_transaction_the_error_names_the_option_to_add() {
    let schema = Schema::new();
    let pooler = Pooler::in_front_of(schema.server_url(), 1);
    let plain = schema.url_through(&pooler).replace("&pooler=transaction", "");
    // Whether the first node meets another's statement names depends on the pooler; the second does, on the
    // only connection.
    let first = open(&plain).await;
    let second = open(&plain).await.map(|_| ());
    let refused = first.map(|_| ()).and(second).expect_err("two clients use the same names");
    assert!(refused.to_string().contains("pooler=transaction"), "{refused}");
}

#[test]
fn a_pooler_without_a_direct_listen_url_is_refused() {
    let refused =
        PostgresOptions::parse("postgres://h/d?pooler=transaction").expect_err("NOTIFY would be lost");
    assert!(refused.to_string().contains("listen_url"), "{refused}");
    let refused = PostgresOptions::parse("postgres://h/d?pooler=session").expect_err("not a mode of ours");
    assert!(refused.to_string().contains("`transaction`"), "{refused}");
}
