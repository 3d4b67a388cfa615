//! Faults of the server itself: stopped, killed, connections cut. Acknowledged tasks are there afterwards,
//! nothing runs twice under one lease, and every client recovers without a restart.

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weaver_core::error::Error;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::{Namespace, QueueName, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::Tasks;
use weaver_core::queue::{Committed, Queue};
use weaver_core::task::{NewTask, TaskState};
use weaver_postgres::{PostgresOptions, PostgresStore};
use weaver_testkit::services::postgres::Private;

/// What the store acknowledged to all clients.
#[derive(Default)]
struct Acknowledged {
    enqueued: Mutex<HashSet<TaskKey>>,
    ended: Mutex<HashSet<TaskKey>>,
    tokens: AtomicU64,
    stop: AtomicBool,
    calls: AtomicU64,
}

async fn open(url: &str) -> PostgresStore {
    let options =
        PostgresOptions::parse(&format!("{url}?acquire_timeout_ms=500")).expect("the URL can be read");
    PostgresStore::open(options, Arc::new(weaver_runtime::SystemClock::new())).await.expect("it opens")
}

/// Enqueues, and records what was acknowledged.
async fn produce(store: Arc<PostgresStore>, acknowledged: Arc<Acknowledged>) {
    while !acknowledged.stop.load(Ordering::Relaxed) {
        match store.enqueue_batch(vec![NewTask::new("t"); 5]).await {
            Ok(answers) => {
                let keys = answers.into_iter().flatten().map(|answer| answer.key);
                acknowledged.enqueued.lock().extend(keys);
            }
            Err(Error::Unavailable { .. }) => pause().await,
            Err(error) => panic!("{error}"),
        }
        acknowledged.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Leases and ends tasks, and records which ends were acknowledged.
async fn work(store: Arc<PostgresStore>, acknowledged: Arc<Acknowledged>) {
    let worker = WorkerId::new("w").expect("a name");
    while !acknowledged.stop.load(Ordering::Relaxed) {
        let token = LeaseToken(acknowledged.tokens.fetch_add(1, Ordering::Relaxed).into());
        let request = LeaseRequest::new(Namespace::default(), QueueName::default(), worker.clone(), token);
        let request = LeaseRequest { max: 10, slots: 10, ..request };
        let Ok(leased) = store.lease(request).await else {
            pause().await;
            continue;
        };
        for each in leased {
            let command = Command::Finish { lease: each.lease, outcome: Outcome::DONE };
            let end = decide(&each.record, command, each.record.updated_at).expect("it holds the lease");
            // Repeating an end without an answer shows whether it was applied.
            for _ in 0..200 {
                match store.commit(vec![end.clone()], None).await {
                    Ok(answers) => {
                        assert_ne!(answers[0], Committed::Stale, "no other worker had {}", end.key);
                        acknowledged.ended.lock().insert(end.key.clone());
                        break;
                    }
                    Err(Error::Unavailable { .. }) => pause().await,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the server is real, and so is the time it takes to come back")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1500 {
        if done() {
            return;
        }
        pause().await;
    }
    panic!("{what} did not happen in time");
}

/// Stops the server under load, starts it again, and compares what is stored with what was acknowledged.
async fn survives(mode: &'static str) {
    let server = Arc::new(Private::durable());
    let (one, two) = (Arc::new(open(&server.url()).await), Arc::new(open(&server.url()).await));
    let acknowledged = Arc::new(Acknowledged::default());
    acknowledged.tokens.store(1, Ordering::Relaxed);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(produce(Arc::clone(&one), Arc::clone(&acknowledged)));
    tasks.spawn(produce(Arc::clone(&two), Arc::clone(&acknowledged)));
    tasks.spawn(work(Arc::clone(&one), Arc::clone(&acknowledged)));
    tasks.spawn(work(Arc::clone(&two), Arc::clone(&acknowledged)));
    for _ in 0..2 {
        let enough = acknowledged.ended.lock().len() + 100;
        until("work", || acknowledged.ended.lock().len() >= enough).await;
        let stopped = Arc::clone(&server);
        let restart = move || {
            stopped.stop(mode);
            stopped.restart();
        };
        tokio::task::spawn_blocking(restart).await.expect("the server comes back");
    }
    let enough = acknowledged.ended.lock().len() + 50;
    until("work after the last stop", || acknowledged.ended.lock().len() >= enough).await;
    acknowledged.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no client panics");
    }
    // Every row can be read, and no task is in two places.
    let report = two.check(&|_| true, &|_, _| Ok(())).await.expect("the store answers");
    assert!(report.is_clean(), "{report:?}");
    let enqueued: Vec<TaskKey> = acknowledged.enqueued.lock().iter().cloned().collect();
    for keys in enqueued.chunks(1000) {
        let found = one.get_tasks(keys).await.expect("the store answers");
        for (key, record) in keys.iter().zip(found) {
            let record = record.unwrap_or_else(|| panic!("{key} was acknowledged and is missing (G1)"));
            if acknowledged.ended.lock().contains(key) {
                assert_eq!(record.state, TaskState::Succeeded, "{key} was ended (G1, G4)");
                assert_eq!(record.executions, 1, "{key} ran once (G2)");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_tasks_survive_a_server_stopped_under_load() {
    survives("fast").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_tasks_survive_a_server_crash_under_load() {
    survives("immediate").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_at_any_moment_lose_nothing_and_are_reopened() {
    let server = Private::durable();
    let (one, killer) = (Arc::new(open(&server.url()).await), open(&server.url()).await);
    let acknowledged = Arc::new(Acknowledged::default());
    acknowledged.tokens.store(1, Ordering::Relaxed);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(produce(Arc::clone(&one), Arc::clone(&acknowledged)));
    tasks.spawn(work(Arc::clone(&one), Arc::clone(&acknowledged)));
    for round in 1..=100_u64 {
        until("a call", || acknowledged.calls.load(Ordering::Relaxed) >= round).await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weaver' \
                   AND pid <> pg_backend_pid() AND state <> 'idle'";
        let _ = sqlx::query(cut).execute(killer.pool()).await;
    }
    let enough = acknowledged.ended.lock().len() + 20;
    until("work after the last cut", || acknowledged.ended.lock().len() >= enough).await;
    acknowledged.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no client panics");
    }
    let keys: Vec<TaskKey> = acknowledged.enqueued.lock().iter().cloned().collect();
    for keys in keys.chunks(1000) {
        let found = one.get_tasks(keys).await.expect("the store answers");
        assert!(found.iter().all(Option::is_some), "what was acknowledged is there");
    }
}
