//! The worker in Python, run as its users run it: a process of its own, the standard library, and a server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weaver_api as wire;
use weaver_client::Client;
use weaver_core::clock::Clock;
use weaver_core::prelude::*;
use weaver_core::task::ContentType;
use weaver_runtime::SystemClock;
use weaver_server::api::{AppState, router};

async fn server() -> (Client, String) {
    serve(Arc::new(InMemoryQueue::new(Arc::new(SystemClock::new())))).await
}

#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn serve(store: Arc<InMemoryQueue>) -> (Client, String) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let state = AppState::new(store, Arc::new(SystemClock::new()));
    tokio::spawn(weaver_server::serve::serve(
        listener,
        router(state.clone()),
        state,
        CancellationToken::new(),
    ));
    (Client::new(&url).expect("an address"), url)
}

fn task(task_type: &str, payload: &str) -> wire::NewTask {
    let payload = Some(wire::Json::from_text(payload).expect("JSON"));
    wire::NewTask { task_type: task_type.to_owned(), payload, ..wire::NewTask::default() }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs the worker until there is nothing left to do.
async fn work(url: &str) {
    let mut command = Command::new("python3");
    command
        .arg(examples().join("python_worker.py"))
        .env("WEAVER_URL", url)
        .env("WEAVER_ONCE", "1")
        .env_remove("WEAVER_TOKEN");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ran");
    let output = output.expect("python3 starts: apt-get update && apt-get install python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_runs_tasks_and_reports_their_outcomes() {
    let (client, url) = server().await;
    let tasks =
        [task("add", "[1,2,39]"), task("fail", "null"), task("fail", r#"{"fatal":true}"#), task("what", "1")];
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(client.enqueue(task).await.expect("stored").id);
    }
    work(&url).await;
    let mut states = Vec::new();
    for id in &ids {
        states.push(client.task("default", id).await.expect("there"));
    }
    assert_eq!(states[0].state, TaskState::Succeeded);
    assert_eq!(states[0].result.as_ref().expect("a result").as_str(), "42");
    assert_eq!(states[1].state, TaskState::RetryScheduled);
    assert_eq!(states[2].state, TaskState::Dead);
    assert_eq!(states[3].state, TaskState::Dead);
    assert!(states[3].last_error.as_deref().is_some_and(|error| error.contains("add, fail")));
    let log = client.logs(&ids[0], &wire::LogsQuery::default()).await.expect("read");
    assert_eq!(log.lines.len(), 1);
    assert_eq!(log.lines[0].body.0, "adding [1, 2, 39]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_nested_too_deeply_for_python_fails_its_task_and_not_the_worker() {
    let store = Arc::new(InMemoryQueue::new(Arc::new(SystemClock::new())));
    let (client, url) = serve(store.clone()).await;
    // Not over the API, which may refuse it: a program that uses the store directly can enqueue it.
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let deep = NewTask::new("add").payload(deep.into_bytes(), ContentType::JSON);
    let deep = store.enqueue(deep).await.expect("stored").key;
    let next = client.enqueue(task("add", "[1]")).await.expect("stored").id;
    work(&url).await;
    let deep = store.get_task(&deep).await.expect("there");
    assert_eq!((deep.state, deep.failures, deep.losses), (TaskState::RetryScheduled, 1, 0));
    assert!(
        deep.last_error.as_deref().is_some_and(|error| error.contains("payload")),
        "{:?}",
        deep.last_error
    );
    assert_eq!(client.task("default", &next).await.expect("there").state, TaskState::Succeeded);
}

/// A handler that reports its start by opening a pipe, which stays open until it ends. It ignores
/// cancellation.
const FOREVER: &str = r#"
import os, sys, time
sys.path.insert(0, os.environ["EXAMPLES"])
import python_worker

def forever(payload, context):
    with open(payload, "w") as pipe:
        print("begun", file=pipe, flush=True)
        while True:
            time.sleep(1000)

python_worker.HANDLERS["forever"] = forever
if __name__ == "__main__":
    sys.exit(python_worker.main())
"#;

/// A worker in Python with the handler [`FOREVER`], which is killed when this is dropped.
struct Forever {
    worker: Child,
    directory: PathBuf,
}

impl Forever {
    fn start(name: &str, url: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the target directory can be written");
        std::fs::write(directory.join("forever.py"), FOREVER).expect("it can be written");
        let made = Command::new("mkfifo").arg(directory.join("pipe")).status();
        assert!(made.expect("there is `mkfifo` (coreutils)").success());
        let mut command = Command::new("python3");
        command.arg(directory.join("forever.py")).env("EXAMPLES", examples());
        let worker = command.env("WEAVER_URL", url).env_remove("WEAVER_TOKEN").spawn();
        Self { worker: worker.expect("python3 starts: apt-get update && apt-get install python3"), directory }
    }

    fn task(&self) -> wire::NewTask {
        task("forever", &format!("{:?}", self.directory.join("pipe")))
    }

    /// Waits until the handler has started; the reader of the pipe sees EOF when the handler has ended.
    async fn begun(&self) -> BufReader<File> {
        let pipe = self.directory.join("pipe");
        let begun = tokio::task::spawn_blocking(move || {
            let mut pipe = BufReader::new(File::open(pipe).expect("it is a pipe"));
            pipe.read_line(&mut String::new()).expect("it is text");
            pipe
        });
        begun.await.expect("it ran")
    }
}

impl Drop for Forever {
    fn drop(&mut self) {
        let _ = self.worker.kill(); // It may have ended already.
        let _ = self.worker.wait();
        let _ = std::fs::remove_dir_all(&self.directory); // It is in the target directory.
    }
}

async fn ended(mut handler: BufReader<File>) {
    let read = move || handler.read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(read).await.expect("it ran").expect("it is a pipe");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_in_python_stops_before_its_lease_expires_when_the_worker_is_cut_off() {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let (client, url) = serve(store.clone()).await;
    let line = Line::to(&url).await;
    let forever = Forever::start("cut-off", &line.url);
    let id = client.enqueue(forever.task()).await.expect("stored").id;
    let handler = forever.begun().await;
    // Nothing is delivered any more, and there is no error: the connections stay open.
    line.cut.cancel();
    ended(handler).await;
    let key = TaskKey::new(Namespace::default(), id.parse().expect("an id"));
    let held = store.get_task(&key).await.expect("there").lease.expect("it is leased");
    assert!(clock.now() < held.expires_at, "ended {:?} too late", clock.now().since(held.expires_at));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_handler_in_python_stops_within_a_second() {
    let clock = SystemClock::new();
    let (client, url) = server().await;
    let forever = Forever::start("cancelled", &url);
    let id = client.enqueue(forever.task()).await.expect("stored").id;
    let handler = forever.begun().await;
    client.cancel("default", &id).await.expect("it is running");
    let cancelled_at = clock.monotonic();
    ended(handler).await;
    let took = clock.monotonic().0.saturating_sub(cancelled_at.0);
    assert!(took <= Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_in_python_ends_with_its_worker() {
    let (client, url) = server().await;
    let mut forever = Forever::start("killed", &url);
    client.enqueue(forever.task()).await.expect("stored");
    let handler = forever.begun().await;
    forever.worker.kill().expect("it runs");
    ended(handler).await;
}

/// A relay to a server that can simulate a network partition: connections stay open, and nothing passes.
struct Line {
    url: String,
    cut: CancellationToken,
}

impl Line {
    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    async fn to(url: &str) -> Self {
        let server = url.strip_prefix("http://").expect("an address").to_owned();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let cut = CancellationToken::new();
        let is_cut = cut.clone();
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.expect("a socket");
                let (server, is_cut) = (server.clone(), is_cut.clone());
                tokio::spawn(async move {
                    let mut far = tokio::net::TcpStream::connect(server).await.expect("it listens");
                    tokio::select! {
                        biased;
                        () = is_cut.cancelled() => std::future::pending().await,
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Self { url, cut }
    }
}
