//! A server that is killed in the middle of something, and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use weaver::core::task::{AttemptOutcome, TaskState};
use weaver::prelude::{Ctx, Registry, Shutdown, SystemClock, TaskError, Worker};
use weaver_api as wire;
use weaver_client::{Client, RemoteSource};

use crate::server::Server;
use crate::support::Place;

/// How often it is killed.
const KILLS: usize = 4;

/// A server that is always started again at the same address, on the same store.
struct Phoenix {
    place: Place,
    server: Option<Server>,
    address: String,
}

impl Phoenix {
    fn start() -> Self {
        let place = Place::new();
        // The test's own worker is the only one: the server's takes from a queue that has nothing.
        let server = Server::start(&place, "serve --queues nothing");
        let address = server.address.clone();
        Self { place, server: Some(server), address }
    }

    fn kill_and_start(&mut self) {
        self.server.take().expect("it runs").kill();
        let listen = self.address.trim_start_matches("http://");
        self.server = Some(Server::at(&self.place, "serve --queues nothing", listen));
    }

    fn client(&self) -> Client {
        let token = self.place.run("token").succeeded();
        let client = Client::new(&self.address).expect("an address");
        client.with_token(token.trim()).expect("it is this machine")
    }
}

fn new_task(key: String) -> wire::NewTask {
    wire::NewTask { task_type: "t".to_owned(), idempotency_key: Some(key), ..wire::NewTask::default() }
}

/// Enqueues one task after the other until it is stopped; returns what was acknowledged, by key. An enqueue
/// that was not answered is repeated with its key, as a careful client does.
async fn produce(
    client: Client,
    who: usize,
    acknowledged: Arc<Semaphore>,
    stop: Arc<AtomicUsize>,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while stop.load(Ordering::Relaxed) == 0 {
        let key = format!("{who}-{}", all.len());
        let stored = loop {
            match client.enqueue(new_task(key.clone())).await {
                Ok(stored) => break stored,
                Err(_) => tokio::task::yield_now().await, // No server at the moment.
            }
        };
        all.push((key, stored.id));
        acknowledged.add_permits(1);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_tasks_come_in_keeps_every_one_it_acknowledged_once() {
    let mut phoenix = Phoenix::start();
    let client = phoenix.client();
    let (acknowledged, stop) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut producers = JoinSet::new();
    for who in 0..8 {
        producers.spawn(produce(client.clone(), who, Arc::clone(&acknowledged), Arc::clone(&stop)));
    }
    for _ in 0..KILLS {
        acknowledged.acquire_many(100).await.expect("open").forget();
        phoenix.kill_and_start();
    }
    acknowledged.acquire_many(50).await.expect("open").forget();
    stop.store(1, Ordering::Relaxed);
    let confirmed: BTreeMap<String, String> = producers.join_all().await.into_iter().flatten().collect();
    phoenix.kill_and_start();

    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut query = wire::ListTasksQuery { limit: Some(1000), ..wire::ListTasksQuery::default() };
    loop {
        let page = client.list_tasks(&query).await.expect("listed");
        for task in page.items {
            found.entry(task.idempotency_key.expect("all have one")).or_default().push(task.id);
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert!(confirmed.len() > 100 * KILLS, "{} tasks", confirmed.len());
    for (key, id) in &confirmed {
        assert_eq!(found.get(key).map(Vec::as_slice), Some(std::slice::from_ref(id)), "{key}");
    }
    assert_eq!(found.len(), confirmed.len(), "no task exists that was not acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_tasks_run_loses_none_and_completes_none_twice() {
    const TASKS: usize = 400;
    let mut phoenix = Phoenix::start();
    let client = phoenix.client();
    let tasks = (0..TASKS).map(|number| new_task(number.to_string())).collect();
    let ids: BTreeSet<String> = client
        .enqueue_batch(tasks)
        .await
        .expect("stored")
        .into_iter()
        .map(|member| match member {
            wire::EnqueueMember::Enqueued(stored) => stored.id,
            wire::EnqueueMember::Failed { problem } => panic!("{problem:?}"),
        })
        .collect();
    let started = Arc::new(Semaphore::new(0));
    let counted = Arc::clone(&started);
    let handler = move |_: Option<()>, ctx: Ctx| {
        counted.add_permits(1);
        async move {
            // Some are short, some are under way when the server goes.
            let pause = Duration::from_millis(ctx.key().id.0 % 7 * 5);
            tokio::time::timeout(pause, ctx.cancelled()).await.ok();
            Ok::<_, TaskError>(ctx.attempt())
        }
    };
    let registry = Registry::new().handle("t", handler).expect("a name");
    let source = Arc::new(RemoteSource::new(client.clone()));
    let worker = Worker::builder(source, Arc::new(SystemClock::new())).registry(registry).concurrency(8);
    let worker = worker.lease_ttl(Duration::from_secs(3)).build().expect("a worker");
    let shutdown = Shutdown::new();
    let mut working = JoinSet::new();
    working.spawn(worker.run(shutdown.clone()));
    for _ in 0..KILLS {
        started.acquire_many(60).await.expect("open").forget();
        phoenix.kill_and_start();
    }
    for id in &ids {
        let ended = loop {
            // The server may be killed during the wait.
            if let Ok(waited) = client.wait("default", id, Duration::from_secs(20)).await
                && waited.ended
            {
                break waited.task;
            }
        };
        assert_eq!(ended.state, TaskState::Succeeded, "{ended:?}");
        let history = client.history("default", id).await.expect("there");
        let succeeded =
            history.attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Succeeded);
        assert_eq!(succeeded.count(), 1, "{history:?}");
        // A failure of the server is none of the task: at most its worker's lease was lost.
        assert_eq!(ended.failures, 0, "{ended:?}");
    }
    shutdown.request();
    working.join_all().await;
}
