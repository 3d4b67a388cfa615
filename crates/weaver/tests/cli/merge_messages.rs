//! Merge queue notifications: a webhook to a real listener, a command that really runs, and the log.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::merge::{git, repository};
use crate::server::Server;
use crate::support::{Place, Run, shell};

/// Answers every request with 200; what the requests said comes out of the channel.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
fn listener() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (send, bodies) = channel();
    // It ends with the process: the listener is never closed before.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let mut length = 0;
            for line in reader.by_ref().lines().map(|line| line.expect("text")) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .expect("sent");
            if send.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}/hook"), bodies)
}

fn settings(place: &Place, webhook: &str) -> String {
    format!(
        r#"
[merge]
webhook = "{webhook}"
command = "announce"

[merge.templates]
enqueued = "{{change}} is number {{position}}"
conflict = "{{change}} clashes in {{details}}"
check_failed = "{{change}} is to blame: {{details}}"
merged = "{{change}} is on {{base}}"

[handlers.http]
allow_networks = ["127.0.0.0/8"]

[handlers.exec]
working_root = "{}"

[handlers.exec.commands.announce]
program = "/bin/sh"
args = ["-c", 'printf "%s %s %s\n" "$1" "$2" "$3" >> notified.txt', "announce", "{{kind}}", "{{queue}}", "{{message}}"]
"#,
        place.path("notified").display()
    )
}

#[test]
fn a_webhook_and_a_command_get_every_message_in_the_operators_words_and_the_log_has_them() {
    let place = Place::new();
    let (webhook, bodies) = listener();
    std::fs::create_dir(place.path("notified")).expect("a test can make directories");
    place.write("weaver.toml", &settings(&place, &webhook));
    repository(&place, &["one", "broken"]);
    let clash = "git -C work switch -q -c clash main && echo other > work/one && git -C work add one && \
                 git -C work commit -q -m clash && git -C work push -q ../project.git clash";
    Run::of(git(&mut shell(&place, clash))).succeeded();
    let server = Server::logged(&place, "serve", "127.0.0.1:0", "info");
    server.run(&place, "merge add-repo project.git").succeeded();
    server.run(&place, "merge pause --reason lunch").succeeded();
    for name in ["one", "clash", "broken"] {
        server.run(&place, &format!("merge enqueue --head {name}")).succeeded();
    }
    server.run(&place, "merge resume").succeeded();
    server.run(&place, "merge wait").succeeded();
    let mut received: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..7 {
        let body = bodies.recv_timeout(Duration::from_secs(60)).expect("a message");
        assert_eq!(body["queue"], "project:main");
        let text = |name: &str| body[name].as_str().expect("text").to_owned();
        received.entry(text("kind")).or_default().push(text("message"));
    }
    received.values_mut().for_each(|messages| messages.sort());
    assert_eq!(received["enqueued"], ["broken is number 3", "clash is number 2", "one is number 1"]);
    assert_eq!(received["merged"], ["one is on main"]);
    let conflict = "clash clashes in one; with entry 1 (`one`), landed as ";
    assert!(received["conflict"][0].starts_with(conflict), "{received:?}");
    assert!(
        received["check_failed"][0].starts_with("broken is to blame: `unit` exited with code 1"),
        "{received:?}"
    );
    assert_eq!(received["paused"], ["the merge queue for `main` is paused: lunch"]);
    // Each look takes as long as a command takes to start.
    let list = "tasks list --state succeeded --queue merge --type exec --output json";
    let looks = (0..1000).map(|_| server.run(&place, list).json());
    assert!(looks.map(|listed| listed["items"].as_array().map_or(0, Vec::len)).any(|found| found == 7));
    let written = place.read("notified/notified.txt");
    assert!(written.contains("merged project:main one is on main\n"), "{written}");
    let log = server.stop().errors;
    assert!(log.contains("clash clashes in one") && log.contains("one is on main"), "{log}");
}

#[test]
fn notification_settings_that_cannot_work_are_refused_at_the_start() {
    let place = Place::new();
    std::fs::create_dir(place.path("notified")).expect("a test can make directories");
    let refused = |text: &str, said: &[&str]| {
        place.write("weaver.toml", text);
        place.run("serve --listen 127.0.0.1:0").failed(2, said);
    };
    refused("merge.command = \"announce\"", &["weaver.toml:1", "command `announce` is not in"]);
    refused("merge.webhook = \"ftp://s3cret@example.org\"", &["`ftp` is not http or https"]);
    let whole = settings(&place, "https://example.org");
    refused(&whole.replace("\"{queue}\", ", ""), &["has no {queue} placeholder"]);
    refused(&whole.replace("merged =", "mergd ="), &["did you mean `merged`?"]);
    place.write("weaver.toml", &settings(&place, "https://example.org/s3cret"));
    let shown = place.run("config show").succeeded();
    assert!(!shown.contains("s3cret") && shown.contains("{change} is on {base}"), "{shown}");
}
