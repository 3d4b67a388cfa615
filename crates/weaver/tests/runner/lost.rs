//! Runners that die, freeze or are disconnected: the prompt is dead, its agent is killed, and nothing runs it
//! a second time.

use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;

use crate::harness::{Harness, until};
use crate::pipe::{Pipe, SANDBOX};

/// Notes that it ran, tells its sandbox, and waits.
const AGENT: &str = "echo ran >> runs; setsid sleep 1000 & readlink /proc/self/ns/pid > begun; wait";

#[test]
fn a_killed_runner_leaves_a_dead_prompt_and_no_agent() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(AGENT);
    let runner = harness.runner("--lease 2s --kill-grace 200ms");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    runner.signal("KILL");
    assert_eq!(runner.wait().code, None);
    until("all processes have ended with the runner", || family.has_ended());
    let task = harness.ended(&id);
    assert_eq!((&task["state"], &task["cause"]), (&"dead".into(), &"lost".into()));
    assert_eq!(
        (&task["executions"], &task["losses"], &task["max_losses"]),
        (&1.into(), &1.into(), &0.into())
    );
    // Another runner is there at once, and does the next prompt, not this one again.
    harness.agent("cat");
    let _other = harness.runner("");
    assert_eq!(harness.run("prompt --wait next").succeeded(), "next\n");
    assert_eq!(harness.place.read("project/runs"), "ran\n");
}

#[test]
fn a_project_stays_locked_until_the_agent_of_a_killed_runner_has_ended() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    let (second, go) = (Pipe::new(&harness, "second"), Pipe::new(&harness, "go"));
    harness.agent(&format!("trap '' TERM; {SANDBOX} > begun; while true; do sleep 1000; done"));
    let runner = harness.runner("--name one --kill-grace 1s");
    harness.prompt("x", "");
    let agent = begun.read_sandbox();
    assert!(!agent.has_ended());
    harness.agent("echo > second; cat go");
    let _other = harness.runner("--name two");
    let next = harness.prompt("y", "");
    runner.signal("KILL");
    runner.wait();
    second.read();
    assert!(agent.has_ended(), "before the next one begins");
    go.release();
    assert_eq!(harness.ended(&next)["state"], "succeeded");
}

#[test]
fn a_runner_that_was_frozen_past_its_lease_kills_its_agent_on_waking_and_its_result_is_refused() {
    let harness = Harness::new();
    let (begun, go) = (Pipe::new(&harness, "begun"), Pipe::new(&harness, "go"));
    harness.agent(&format!("echo ran >> runs; setsid sleep 1000 & {SANDBOX} > begun; cat go; echo a result"));
    let runner = harness.runner("--name r1 --lease 2s");
    let id = harness.prompt("x", "");
    let child = begun.read_sandbox();
    runner.signal("STOP");
    let lost = harness.ended(&id);
    assert_eq!((&lost["state"], &lost["cause"]), (&"dead".into(), &"lost".into()));
    // Its agent would succeed now.
    go.release();
    runner.signal("CONT");
    until("the agent's child has ended", || child.has_ended());
    harness.agent("cat");
    assert_eq!(harness.run("prompt --wait next").succeeded(), "next\n", "the runner continues");
    let after = harness.task(&id);
    assert_eq!((&after["state"], &after["version"]), (&"dead".into(), &lost["version"]));
    assert_eq!(after["result"], serde_json::Value::Null);
    assert_eq!(harness.place.read("project/runs"), "ran\n");
}

#[test]
fn a_frozen_runner_with_a_long_agent_kills_it_at_once_on_waking() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(AGENT);
    let runner = harness.runner("--lease 2s --kill-grace 200ms");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    runner.signal("STOP");
    assert_eq!(harness.ended(&id)["state"], "dead");
    let clock = SystemClock::new();
    runner.signal("CONT");
    until("all processes have ended", || family.has_ended());
    assert!(clock.monotonic().0 < Duration::from_secs(2), "at once, not at the next renewal");
}

#[test]
fn a_runner_that_cannot_renew_ends_its_agent_before_its_lease_ends() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(AGENT);
    let _runner = harness.runner("--lease 4s --kill-grace 200ms");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    // From here on nothing can be renewed: the last renewal is at most this old.
    let clock = SystemClock::new();
    harness.signal_server("STOP");
    until("all processes have ended", || family.has_ended());
    assert!(clock.monotonic().0 < Duration::from_secs(4), "{:?}", clock.monotonic());
    harness.signal_server("CONT");
    let task = harness.ended(&id);
    assert_eq!((&task["state"], &task["executions"]), (&"dead".into(), &1.into()));
    assert_eq!(harness.place.read("project/runs"), "ran\n");
}
