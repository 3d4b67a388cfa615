//! However a prompt ends, nothing of its agent is left.

use crate::harness::{Harness, until};
use crate::pipe::Pipe;

/// A shell with a child in its group, one in a session of its own, one that lost its parent as well, and one
/// that has nothing left to be known by: no group, no session, no parent, no environment. It tells its
/// sandbox, and waits.
const FAMILY: &str = "sleep 1000 &
setsid sleep 1000 &
setsid sh -c 'sleep 1000 >/dev/null 2>&1 &'
env -i setsid env -i sh -c 'sleep 1000 >/dev/null 2>&1 &'
readlink /proc/self/ns/pid > begun; wait";

/// All of it ignores SIGTERM, and one of it has nothing left to be known by.
const STUBBORN: &str = "trap '' TERM; (sleep 1000; sleep 1000) &
env -i setsid env -i sh -c 'sleep 1000 >/dev/null 2>&1 &'
readlink /proc/self/ns/pid > begun; while true; do sleep 1000; done";

#[test]
fn a_cancelled_prompt_is_killed_with_all_its_descendants() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(FAMILY);
    let _runner = harness.runner("");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    assert!(family.alive() >= 5, "{family:?}");
    harness.run(&format!("tasks cancel {id}")).succeeded();
    assert_eq!(harness.task(&id)["state"], "cancelled", "it is over at once");
    until("all processes have ended", || family.has_ended());
    // The runner continues with the next prompt.
    harness.agent("cat");
    assert_eq!(harness.run("prompt --wait next").succeeded(), "next\n");
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(STUBBORN);
    let _runner = harness.runner("--kill-grace 200ms");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    assert!(family.alive() >= 3, "{family:?}");
    harness.run(&format!("tasks cancel {id}")).succeeded();
    until("all processes have ended", || family.has_ended());
}

#[test]
fn a_prompt_that_exceeds_its_timeout_is_dead_and_its_agent_killed() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(FAMILY);
    let _runner = harness.runner("");
    let id = harness.prompt("x", "--timeout 1s");
    let family = begun.read_sandbox();
    let task = harness.ended(&id);
    assert_eq!(
        (&task["state"], &task["cause"], &task["executions"]),
        (&"dead".into(), &"timed_out".into(), &1.into())
    );
    assert!(family.has_ended(), "killed before the task has ended");
}

#[test]
fn what_an_agent_leaves_running_ends_with_it() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(&FAMILY.replace("; wait", "; echo done"));
    let _runner = harness.runner("");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    let task = harness.ended(&id);
    assert_eq!(task["result"]["output"], "done\n");
    assert!(family.has_ended(), "killed before the task has ended");
}

#[test]
fn a_runner_that_gets_sigterm_lets_its_prompt_finish_within_the_grace() {
    let harness = Harness::new();
    let (begun, go) = (Pipe::new(&harness, "begun"), Pipe::new(&harness, "go"));
    harness.agent("echo begun > begun; cat go");
    let runner = harness.runner("--name r1");
    let id = harness.prompt("x", "");
    begun.read();
    runner.signal("TERM");
    until("it says that it takes nothing new", || harness.runners()[0]["heartbeat"]["draining"] == true);
    go.release();
    assert_eq!(runner.wait().code, Some(0));
    assert_eq!(harness.task(&id)["state"], "succeeded");
}

#[test]
fn a_prompt_interrupted_by_a_shutdown_is_dead_and_never_retried() {
    let harness = Harness::new();
    let begun = Pipe::new(&harness, "begun");
    harness.agent(FAMILY);
    let runner = harness.runner("--grace 0s --name r1");
    let id = harness.prompt("x", "");
    let family = begun.read_sandbox();
    assert_eq!(runner.stop().code, Some(0));
    assert!(family.has_ended(), "killed before the runner has stopped");
    let task = harness.ended(&id);
    assert_eq!((&task["state"], &task["executions"]), (&"dead".into(), &1.into()));
    assert!(
        task["last_error"].as_str().is_some_and(|error| error.contains("the runner was shut down")),
        "{task}"
    );
    assert_eq!(harness.runners()[0]["status"], "stopped");
}
