//! A cancellation reaches a worker of a server within a second, with default settings (G11).

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;

use crate::server::Server;
use crate::support::Place;

/// What a busy machine may add to the second that is promised; without the wake-up it would be ten.
const SLACK: Duration = Duration::from_secs(2);

#[test]
fn a_cancelled_task_of_a_worker_over_http_stops_within_a_second() {
    let place = Place::new();
    let server = Server::start(&place, "serve --queues nothing");
    let hook = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let url = format!("http://{}/hook", hook.local_addr().expect("it is bound"));
    let elsewhere = Place::new();
    elsewhere.write("weaver.toml", "[handlers.http]\nallow_networks = [\"127.0.0.0/8\"]\n");
    let made = server.run(&place, "tokens create w --role worker --output json").json();
    let mut command = elsewhere.command("worker --log warn");
    command.env("WEAVER_SERVER", &server.address);
    command.env("WEAVER_TOKEN", made["token"].as_str().expect("a token"));
    let mut worker = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let id = server.run(&place, &format!("enqueue http {{\"url\":\"{url}\"}}")).succeeded();
    let (stream, _) = hook.accept().expect("the task calls");
    let mut request = BufReader::new(stream);
    let mut line = String::new();
    request.read_line(&mut line).expect("it sends a request");

    server.run(&place, &format!("tasks cancel {}", id.trim())).succeeded();
    let clock = SystemClock::new();
    let cancelled_at = clock.monotonic();
    // The handler that is stopped closes its connection.
    let _ = request.read_to_end(&mut Vec::new()); // A reset is as good as an end.
    let took = clock.monotonic().0.saturating_sub(cancelled_at.0);
    worker.kill().expect("it runs");
    worker.wait().expect("it ends");
    assert!(took <= Duration::from_secs(1) + SLACK, "{took:?}");
}
