//! Removing merge queues over HTTP.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use weaver_server::security::Role;

use crate::merge_bench::{Bench, QUEUE};
use crate::server::{Directory, request};

async fn delete(bench: &Bench, query: &str) -> crate::server::TestResponse {
    let server = &bench.server;
    server.send(&request("DELETE", &format!("{QUEUE}{query}"), server.address, "", "")).await
}

#[tokio::test]
async fn a_queue_is_removed_with_its_entries_only_if_the_request_says_so() {
    let bench = Bench::new().await.with_queue().await;
    for name in ["a", "b"] {
        bench.branch(name, &[(name, "1\n")]);
        bench.enqueue(name).await.expect(201);
    }
    for query in ["", "?cancel_entries=false"] {
        let refused = delete(&bench, query).await.problem(409, "open_entries");
        let detail = refused["detail"].as_str().expect("a text");
        let hint = refused["hint"].as_str().expect("a text");
        assert!(detail.contains("2 open entries") && hint.contains("cancel_entries=true"), "{refused}");
    }
    delete(&bench, "?cancel_entries=perhaps").await.problem(400, "invalid_query");
    let removed = delete(&bench, "?cancel_entries=true").await.expect(200);
    let removal = &removed["removed"];
    assert_eq!(
        (&removal["by"], &removal["entries"], &removal["complete"]),
        (&json!("ada"), &json!(2), &json!(true))
    );
    assert_eq!(bench.server.get("/api/v1/merge/queues").await.expect(200)["items"], json!([]));
    bench.enqueue("a").await.problem(409, "merge_queue_removed");
    bench.server.post_empty(&format!("{QUEUE}/resume")).await.problem(409, "merge_queue_removed");
    bench.server.get(&format!("{QUEUE}/events")).await.problem(409, "merge_queue_removed");
    // Its past stays.
    let entries = bench.server.get(&format!("{QUEUE}/entries")).await.expect(200);
    let reasons: Vec<&Value> = entries["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| &entry["reason"]["reason"])
        .collect();
    assert_eq!(reasons, ["queue_removed", "queue_removed"]);
    assert_eq!(bench.server.get(&format!("{QUEUE}/verify")).await.expect(200)["differences"], json!([]));
    bench.server.get(&format!("{QUEUE}/chain")).await.expect(200);
    let metrics = bench.server.get("/metrics").await.body;
    assert!(!metrics.contains("demo:main"), "{metrics}");
    let journal = bench.server.get("/api/v1/audit").await.expect(200);
    let last = journal["entries"].as_array().expect("entries").last().expect("one").clone();
    assert_eq!((&last["action"], &last["target"]), (&json!("merge.remove_queue"), &json!("merge/demo:main")));
    assert_eq!(last["detail"], "2 entries were cancelled");
    delete(&bench, "").await.expect(200);
    // It continues where it ended.
    let bench = bench.with_queue().await;
    assert_eq!(bench.enqueue("a").await.expect(201)["entry"], 3);
}

#[tokio::test]
async fn a_running_check_ends_with_the_removal_of_its_queue() {
    // A check that says when it runs.
    let directory = Directory::new();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("there is a mkfifo").success());
    let script = format!("echo $$ > {}; exec sleep 1000", fifo.display());
    let bench = Bench::checking(&script).await.with_queue().await.working();
    bench.branch("a", &[("a", "1\n")]);
    bench.enqueue("a").await.expect(201);
    let pid =
        spawn_blocking(move || std::fs::read_to_string(fifo).expect("a pid")).await.expect("it is read");
    let tasks = bench.server.get("/api/v1/tasks").await.expect(200);
    let task = tasks["items"][0]["id"].as_str().expect("an id").to_owned();
    let removed = delete(&bench, "?cancel_entries=true").await.expect(200);
    assert_eq!(removed["removed"]["complete"], true, "{removed}");
    let waited = bench.server.get(&format!("/api/v1/tasks/{task}/wait?timeout_ms=20000")).await.expect(200);
    assert_eq!(waited["task"]["state"], "cancelled", "{waited}");
    while Path::new("/proc").join(pid.trim()).exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.left(1).await["reason"]["reason"], "queue_removed");
}

#[tokio::test]
async fn only_an_operator_removes_a_queue() {
    for role in [Role::Viewer, Role::Producer, Role::Worker] {
        let bench = Bench::asked_by(role, false).await;
        let location = bench.repository()["location"].as_str().expect("a path").to_owned();
        let repository = weaver_merge::domain::Repository { name: "demo".into(), location };
        bench.server.state.merge.add_queue(repository, "main").await.unwrap();
        delete(&bench, "?cancel_entries=true").await.problem(403, "permission_missing");
        assert_eq!(bench.server.get(QUEUE).await.expect(200).get("removed"), None);
    }
}
