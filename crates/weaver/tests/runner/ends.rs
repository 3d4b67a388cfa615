//! However a prompt ends, nothing of its agent is left.

use crate::bed::{Bed, until};
use crate::pipe::Pipe;

/// A shell with a child in its group, one in a session of its own, one that lost its parent as well, and one
/// that has nothing left to be known by: no group, no session, no parent, no environment. It tells its cell,
/// and waits.
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
fn a_cancelled_prompt_is_gone_with_all_its_children_wherever_they_went() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(FAMILY);
    let _runner = bed.runner("--lease 3s");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    assert!(family.alive() >= 5, "{family:?}");
    bed.run(&format!("tasks cancel {id}")).succeeded();
    assert_eq!(bed.task(&id)["state"], "cancelled", "it is over at once");
    until("the family is gone", || family.is_gone());
    // The runner goes on with the next.
    bed.agent("cat");
    assert_eq!(bed.run("prompt --wait next").succeeded(), "next\n");
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(STUBBORN);
    let _runner = bed.runner("--lease 3s --kill-grace 200ms");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    assert!(family.alive() >= 3, "{family:?}");
    bed.run(&format!("tasks cancel {id}")).succeeded();
    until("the family is gone", || family.is_gone());
}

#[test]
fn a_prompt_that_takes_too_long_is_an_error_and_gone() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(FAMILY);
    let _runner = bed.runner("");
    let id = bed.prompt("x", "--timeout 1s");
    let family = begun.read_cell();
    let task = bed.ended(&id);
    assert_eq!(
        (&task["state"], &task["cause"], &task["executions"]),
        (&"dead".into(), &"timed_out".into(), &1.into())
    );
    assert!(family.is_gone(), "gone before the task has ended");
}

#[test]
fn what_an_agent_leaves_running_ends_with_it() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(&FAMILY.replace("; wait", "; echo done"));
    let _runner = bed.runner("");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    let task = bed.ended(&id);
    assert_eq!(task["result"]["output"], "done\n");
    assert!(family.is_gone(), "gone before the task has ended");
}

#[test]
fn a_runner_that_is_told_to_stop_lets_its_prompt_finish_within_the_grace() {
    let bed = Bed::new();
    let (begun, go) = (Pipe::new(&bed, "begun"), Pipe::new(&bed, "go"));
    bed.agent("echo begun > begun; cat go");
    let runner = bed.runner("--name r1");
    let id = bed.prompt("x", "");
    begun.read();
    runner.signal("TERM");
    until("it says that it takes nothing new", || bed.runners()[0]["beat"]["draining"] == true);
    go.release();
    assert_eq!(runner.wait().code, Some(0));
    assert_eq!(bed.task(&id)["state"], "succeeded");
}

#[test]
fn a_prompt_that_a_shutdown_cuts_off_is_an_error_and_never_run_again() {
    let bed = Bed::new();
    let begun = Pipe::new(&bed, "begun");
    bed.agent(FAMILY);
    let runner = bed.runner("--grace 0s --name r1");
    let id = bed.prompt("x", "");
    let family = begun.read_cell();
    assert_eq!(runner.stop().code, Some(0));
    assert!(family.is_gone(), "gone before the runner has stopped");
    let task = bed.ended(&id);
    assert_eq!((&task["state"], &task["executions"]), (&"dead".into(), &1.into()));
    assert!(
        task["last_error"].as_str().is_some_and(|error| error.contains("the runner was shut down")),
        "{task}"
    );
    assert_eq!(bed.runners()[0]["status"], "stopped");
}
