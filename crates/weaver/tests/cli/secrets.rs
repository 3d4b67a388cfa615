//! Secrets are not where other processes look for them.

use crate::server::Server;
use crate::support::{Place, Run};

/// The environment of a process, as root or its user sees it. What is refused is empty.
fn environment_of(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_token_of_the_environment_leaves_it_and_is_used_all_the_same() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let made = server.run(&place, "tokens create worker --role worker --output json").json();
    let token = made["token"].as_str().expect("it is printed once").to_owned();
    let mut command = place.command("worker --log info --name w1");
    let worker = command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", &token);
    let worker = worker.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut worker = worker.spawn().expect("the binary starts");
    let heard = || server.run(&place, "workers list").out.contains("w1");
    while !heard() {
        assert!(worker.try_wait().expect("it can be asked").is_none(), "the worker has ended");
    }
    let seen = environment_of(worker.id());
    assert!(!seen.contains(&token) && !seen.contains("WEAVER_TOKEN"), "{seen}");
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
}

#[test]
fn a_token_comes_from_a_file_that_a_variable_names() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let made = server.run(&place, "tokens create reader --role viewer --output json").json();
    place.write("reader.token", made["token"].as_str().expect("it is printed once"));
    let mut command = place.command("tasks list");
    command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN_FILE", place.path("reader.token"));
    Run::of(&mut command).succeeded();
    place.write("reader.token", "wv_1_not-that-one");
    assert_ne!(Run::of(&mut command).code, Some(0), "it is that file's token that counts");
}
