//! `weaver worker` runs built-in tasks, and ends in order.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::support::{Place, Run};

#[test]
fn a_worker_that_gets_sigterm_finishes_running_tasks() {
    let place = Place::with_store();
    let hook = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let url = format!("http://{}/hook", hook.local_addr().expect("it is bound"));
    place.write("weaver.toml", "[handlers.http]\nallow_networks = [\"127.0.0.0/8\"]\n");
    place.write("task.json", &format!("{{\"url\": \"{url}\"}}"));
    put(&place, "http", &place.read("task.json"));

    let mut command = place.command("worker --store ./weaver-data --log warn --output json");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let (mut stream, _) = hook.accept().expect("the task calls");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("it sends a request");
    assert!(line.starts_with("GET /hook"), "{line}");
    // The task runs while the worker gets SIGTERM.
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("there is a `kill`").success());
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        .expect("it listens");
    drop(stream);
    let summary = Run::from(child.wait_with_output().expect("it ends")).json();
    assert_eq!(
        (summary["succeeded"].as_u64(), summary["released"].as_u64()),
        (Some(1), Some(0)),
        "{summary}"
    );
}

#[test]
fn a_worker_of_a_server_runs_its_tasks_with_the_programs_that_are_allowed_on_its_own_machine() {
    let place = Place::new();
    let server = Server::start(&place, "serve --queues nothing");
    let elsewhere = Place::new();
    let root = elsewhere.path("");
    let policy = format!(
        "[handlers.exec]\nworking_root = \"{}\"\n[handlers.exec.commands.say]\nprogram = \"/bin/echo\"\nargs = [\"{{words}}\"]\n",
        root.display()
    );
    elsewhere.write("weaver.toml", &policy);
    let made = server.run(&place, "tokens create w --role worker --output json").json();
    let token = made["token"].as_str().expect("a token");
    let mut command = elsewhere.command("worker --log warn --output json");
    command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", token);
    let worker = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let task = r#"{"command":"say","values":{"words":"hello"}}"#;
    let id = server.run(&place, &format!("enqueue exec {task}")).succeeded();
    server.run(&place, &format!("tasks wait {}", id.trim())).succeeded();
    let logged = server.run(&place, &format!("tasks logs {}", id.trim())).succeeded();
    assert!(logged.contains("hello"), "{logged}");
    let sent = Command::new("kill").args(["-TERM", &worker.id().to_string()]).status();
    assert!(sent.expect("there is a `kill`").success());
    let summary = Run::from(worker.wait_with_output().expect("it ends")).json();
    assert_eq!(summary["succeeded"], 1, "{summary}");
}

#[test]
fn a_worker_needs_a_store_or_a_server_and_a_policy_that_makes_sense() {
    let place = Place::with_store();
    place.run("worker --store ./none").failed(3, &["no store in ./none"]);
    place.run("worker --store ./weaver-data --server http://127.0.0.1:1").failed(2, &["--server"]);
    place.run("worker --store ./weaver-data --concurrency 0").failed(2, &["worker.concurrency", "from 1"]);
    place.write("weaver.toml", "[handlers.http]\nredirect_max = 3\n");
    place.run("worker --store ./weaver-data").failed(2, &["weaver.toml:2", "did you mean `redirects_max`?"]);
}

/// Puts a task into the store of a place, as a program would.
fn put(place: &Place, task_type: &'static str, payload: &str) {
    use std::sync::Arc;
    use weaver::embedded::EmbeddedStore;
    use weaver::prelude::*;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("there are threads");
    let clock = Arc::new(SystemClock::new());
    let store = EmbeddedStore::open(place.path("weaver-data"), clock).expect("the store is there");
    let payload: serde_json::Value = serde_json::from_str(payload).expect("it is JSON");
    let task = NewTask::new(task_type).json(&payload).expect("it is JSON");
    runtime.block_on(store.enqueue(task)).expect("it is stored");
}
