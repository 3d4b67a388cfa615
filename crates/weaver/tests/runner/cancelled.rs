//! A cancelled prompt stops within a second with default settings: nothing of the runner or the server is set
//! (G11).

use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;

use crate::harness::{Harness, Runner, until};
use crate::pipe::Pipe;

/// What a busy machine may add to the second that is promised; without the wake-up it would be forty.
const SLACK: Duration = Duration::from_secs(2);

const AGENT: &str = "sleep 1000 & readlink /proc/self/ns/pid > begun; wait";

/// Cancels a prompt of a runner of the project that runs; how long its processes lived on.
fn time_to_stop(harness: &Harness, runner: &mut std::process::Command) -> Duration {
    let begun = Pipe::new(harness, "begun");
    harness.agent(AGENT);
    let _runner = Runner::start(runner);
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    harness.run(&format!("tasks cancel {id}")).succeeded();
    let clock = SystemClock::new();
    let cancelled_at = clock.monotonic();
    until("the agent has ended", || family.has_ended());
    clock.monotonic().0.saturating_sub(cancelled_at.0)
}

#[test]
fn a_cancelled_prompt_stops_within_a_second_over_http() {
    let harness = Harness::new();
    let mut runner = harness.command("runner --log warn --project-root project -- sh -e agent.sh");
    let took = time_to_stop(&harness, runner.env("WEAVER_NAMESPACE", crate::harness::NAMESPACE));
    assert!(took <= Duration::from_secs(1) + SLACK, "{took:?}");
}

#[cfg(feature = "postgres")]
#[test]
fn a_cancelled_prompt_stops_within_a_second_on_a_store_shared_with_the_server() {
    let server = weaver_testkit::services::postgres::Shared::server();
    let url = format!("{}?schema=cancelled_{}", server.url(), weaver_testkit::services::process_key());
    let harness = Harness::on(&url);
    let mut runner = harness.place.command("runner --log warn --project-root project --store");
    let runner = runner.arg(&url).args(["--", "sh", "-e", "agent.sh"]);
    let took = time_to_stop(&harness, runner.env("WEAVER_NAMESPACE", crate::harness::NAMESPACE));
    assert!(took <= Duration::from_secs(1) + SLACK, "{took:?}");
}
