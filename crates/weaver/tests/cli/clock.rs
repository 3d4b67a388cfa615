//! The wall clock of a server is set: what it promised to wait for takes as long as it promised. On the
//! binary, with libfaketime.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;
use weaver_testkit::services::faketime::FakeTime;

use crate::server::Server;
use crate::support::Place;

const HOUR_S: i64 = 3600;
const DELAY: Duration = Duration::from_secs(3);

/// A server of a place with a store, which runs http tasks, and sees the clock.
fn serve(place: &Place, clock: &FakeTime) -> Server {
    let mut command = place.command("serve --listen 127.0.0.1:0 --log warn");
    Server::spawn(clock.show_to(&mut command))
}

/// Enqueues a call of the hook; its id.
fn enqueue(server: &Server, place: &Place, hook: &TcpListener, flags: &str) -> String {
    let url = format!("http://{}/", hook.local_addr().expect("it is bound"));
    let run = server.run(place, &format!("enqueue {flags} http {{\"url\":\"{url}\"}}"));
    run.succeeded().trim().to_owned()
}

/// Waits for a task to call the hook.
fn called(hook: &TcpListener) -> BufReader<TcpStream> {
    let mut call = BufReader::new(hook.accept().expect("the task calls").0);
    call.read_line(&mut String::new()).expect("it sends a request");
    call
}

/// Sets the clock while one task runs under its lease and another waits for its delay.
fn set_while_open(ahead_s: i64, said: &str) {
    let (place, real) = (Place::new(), SystemClock::new());
    place.write("weaver.toml", "[handlers.http]\nallow_networks = [\"127.0.0.0/8\"]\n");
    let clock = FakeTime::new(&place.path(""));
    let server = serve(&place, &clock);
    let (running, delayed) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (running, delayed) = (running.expect("a free port"), delayed.expect("a free port"));
    let id = enqueue(&server, &place, &running, "");
    let call = called(&running);

    let before = real.monotonic();
    enqueue(&server, &place, &delayed, "--delay 3s");
    let after = real.monotonic();
    clock.set(ahead_s);
    let second = called(&delayed);
    let at = real.monotonic();
    assert!(at.0 - before.0 >= DELAY, "after {:?}, too early", at.0 - before.0);
    // Within a few seconds on a busy machine, and not within an hour.
    assert!(at.0 - after.0 <= 5 * DELAY, "after {:?}, too late", at.0 - after.0);

    let task = server.run(&place, &format!("tasks show {id} --output json")).json();
    assert_eq!(
        (&task["state"], &task["losses"]),
        (&"running".into(), &0.into()),
        "its lease is renewed and its own"
    );
    // Handlers whose calls end are not waited for.
    drop((call, second));
    let stopped = server.stop();
    assert!(stopped.errors.contains(said), "{}", stopped.errors);
}

#[test]
fn a_clock_set_back_an_hour_delays_nothing_and_is_logged() {
    set_while_open(-HOUR_S, "the wall clock was set back by 3");
}

#[test]
fn a_clock_set_forward_an_hour_ends_no_lease_and_no_delay_early_and_is_logged() {
    set_while_open(HOUR_S, "the wall clock was set forward by 3");
}

#[test]
fn a_clock_set_back_while_the_server_was_down_delays_nothing() {
    let (place, real) = (Place::new(), SystemClock::new());
    place.write("weaver.toml", "[handlers.http]\nallow_networks = [\"127.0.0.0/8\"]\n");
    let clock = FakeTime::new(&place.path(""));
    let server = serve(&place, &clock);
    let hook = TcpListener::bind("127.0.0.1:0").expect("a free port");
    enqueue(&server, &place, &hook, "--delay 3s");
    server.kill();
    clock.set(-HOUR_S);
    let before = real.monotonic();
    let server = serve(&place, &clock);
    let _called = called(&hook);
    let took = real.monotonic().0 - before.0;
    assert!(took <= 5 * DELAY, "{took:?}");
    enqueue(&server, &place, &hook, "");
    let _called = called(&hook);
}
