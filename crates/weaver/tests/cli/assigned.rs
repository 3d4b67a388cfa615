//! Queues whose tasks a leader assigns: the server leads, and workers start what they are given.

use std::process::Stdio;

use crate::server::Server;
use crate::support::Place;

const EXEC: &str = "[handlers.exec.commands.say]\nprogram = \"/bin/echo\"\nargs = [\"{words}\"]\n";
const HELLO: &str = r#"{"command":"say","values":{"words":"hello"}}"#;

#[test]
fn a_server_alone_assigns_to_its_own_worker() {
    let place = Place::new();
    let root = place.path("work");
    std::fs::create_dir(&root).expect("the place is new");
    place.write("weaver.toml", &format!("[handlers.exec]\nworking_root = \"{}\"\n{EXEC}", root.display()));
    let server = Server::start(&place, "serve");
    let set = server.run(&place, "queues dispatch default assign").succeeded();
    assert!(set.contains("A leader assigns its tasks."), "{set}");
    let id = server.run(&place, &format!("enqueue exec {HELLO}")).succeeded();
    server.run(&place, &format!("tasks wait {}", id.trim())).succeeded();
    let task = server.run(&place, &format!("tasks show {} --output json", id.trim())).json();
    let epoch = &task["attempts"][0];
    assert_eq!((&task["state"], &epoch["outcome"]), (&"succeeded".into(), &"succeeded".into()), "{task}");
}

#[test]
fn a_remote_worker_starts_what_the_servers_leader_assigns_to_it() {
    let place = Place::new();
    let server = Server::start(&place, "serve --queues nothing");
    server.run(&place, "queues dispatch default assign").succeeded();
    let id = server.run(&place, &format!("enqueue exec {HELLO}")).succeeded();
    let elsewhere = Place::new();
    let root = elsewhere.path("");
    elsewhere
        .write("weaver.toml", &format!("[handlers.exec]\nworking_root = \"{}\"\n{EXEC}", root.display()));
    let made = server.run(&place, "tokens create w --role worker --output json").json();
    let token = made["token"].as_str().expect("a token");
    let mut command = elsewhere.command("worker --name w1 --log warn --output json");
    command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", token);
    let mut worker =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    server.run(&place, &format!("tasks wait {}", id.trim())).succeeded();
    let task = server.run(&place, &format!("tasks show {} --output json", id.trim())).json();
    assert_eq!(task["attempts"][0]["worker"], "w1", "{task}");
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
}
