//! Runners that die, freeze or are cut off: the prompt is an error, its agent is gone, and nothing runs it a
//! second time.

use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;

use crate::bed::{Bed, until};
use crate::pipe::{CELL, Pipe};

/// Notes that it ran, tells its cell, and waits.
const AGENT: &str = "echo ran >> runs; setsid sleep 1000 & readlink /proc/self/ns/pid > begun; wait";

#[test]
fn a_runner_that_is_killed_leaves_an_error_and_no_agent() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(AGENT);
    let runner = bed.runner("--lease 2s --kill-grace 200ms");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    runner.signal("KILL");
    assert_eq!(runner.wait().code, None);
    until("the family is gone with its runner", || family.is_gone());
    let task = bed.ended(&id);
    assert_eq!((&task["state"], &task["cause"]), (&"dead".into(), &"lost".into()));
    assert_eq!(
        (&task["executions"], &task["losses"], &task["max_losses"]),
        (&1.into(), &1.into(), &0.into())
    );
    // Another runner is there at once, and does the next prompt, not this one again.
    bed.agent("cat");
    let _other = bed.runner("");
    assert_eq!(bed.run("prompt --wait next").succeeded(), "next\n");
    assert_eq!(bed.place.read("project/runs"), "ran\n");
}

#[test]
fn a_project_stays_locked_until_the_agent_of_a_killed_runner_is_gone() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    let (second, go) = (Pipe::new(&bed, "second"), Pipe::new(&bed, "go"));
    bed.agent(&format!("trap '' TERM; {CELL} > begun; while true; do sleep 1000; done"));
    let runner = bed.runner("--name one --kill-grace 1s");
    bed.prompt("x", "");
    let agent = begun.read_cell();
    assert!(!agent.is_gone());
    bed.agent("echo > second; cat go");
    let _other = bed.runner("--name two");
    let next = bed.prompt("y", "");
    runner.signal("KILL");
    runner.wait();
    second.read();
    assert!(agent.is_gone(), "before the next one begins");
    go.release();
    assert_eq!(bed.ended(&next)["state"], "succeeded");
}

#[test]
fn a_runner_that_was_frozen_past_its_lease_kills_its_agent_on_waking_and_its_result_is_refused() {
    let bed = Bed::new();
    let (begun, go) = (Pipe::new(&bed, "begun"), Pipe::new(&bed, "go"));
    bed.agent(&format!("echo ran >> runs; setsid sleep 1000 & {CELL} > begun; cat go; echo a result"));
    let runner = bed.runner("--name r1 --lease 2s");
    let id = bed.prompt("x", "");
    let child = begun.read_cell();
    runner.signal("STOP");
    let lost = bed.ended(&id);
    assert_eq!((&lost["state"], &lost["cause"]), (&"dead".into(), &"lost".into()));
    // Its agent would succeed now.
    go.release();
    runner.signal("CONT");
    until("the agent's child is gone", || child.is_gone());
    bed.agent("cat");
    assert_eq!(bed.run("prompt --wait next").succeeded(), "next\n", "the runner goes on");
    let after = bed.task(&id);
    assert_eq!((&after["state"], &after["version"]), (&"dead".into(), &lost["version"]));
    assert_eq!(after["result"], serde_json::Value::Null);
    assert_eq!(bed.place.read("project/runs"), "ran\n");
}

#[test]
fn a_frozen_runner_with_a_long_agent_kills_it_at_once_on_waking() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(AGENT);
    let runner = bed.runner("--lease 2s --kill-grace 200ms");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    runner.signal("STOP");
    assert_eq!(bed.ended(&id)["state"], "dead");
    let clock = SystemClock::new();
    runner.signal("CONT");
    until("the family is gone", || family.is_gone());
    assert!(clock.monotonic().0 < Duration::from_secs(2), "at once, not at the next renewal");
}

#[test]
fn a_runner_that_cannot_renew_ends_its_agent_before_its_lease_ends() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(AGENT);
    let _runner = bed.runner("--lease 4s --kill-grace 200ms");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    // From here on nothing can be renewed: the last renewal is at most this old.
    let clock = SystemClock::new();
    bed.signal_server("STOP");
    until("the family is gone", || family.is_gone());
    assert!(clock.monotonic().0 < Duration::from_secs(4), "{:?}", clock.monotonic());
    bed.signal_server("CONT");
    let task = bed.ended(&id);
    assert_eq!((&task["state"], &task["executions"]), (&"dead".into(), &1.into()));
    assert_eq!(bed.place.read("project/runs"), "ran\n");
}
