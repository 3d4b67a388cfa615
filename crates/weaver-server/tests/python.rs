//! The worker in Python, run as its users run it: a process of its own, the standard library, and a server.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weaver_client::{Client, wire};
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::task::TaskState;
use weaver_runtime::SystemClock;
use weaver_server::api::{AppState, router};

#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn server() -> (Client, String) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let clock = Arc::new(SystemClock::new());
    let state = AppState::new(Arc::new(InMemoryQueue::new(clock.clone())), clock);
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

/// Runs the worker until there is nothing left to do.
async fn work(url: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python_worker.py");
    let mut command = Command::new("python3");
    command.arg(script).env("WEAVER_URL", url).env("WEAVER_ONCE", "1").env_remove("WEAVER_TOKEN");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ran");
    let output = output.expect("python3 starts: apt-get update && apt-get install python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_runs_tasks_and_reports_how_they_ended() {
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
