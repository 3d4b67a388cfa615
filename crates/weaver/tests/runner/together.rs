//! Several runners: every prompt is run once, a project has one agent at a time, a session keeps its order.

use crate::harness::{Harness, Runner};
use crate::pipe::Pipe;

/// Fails if another agent works in the same place (`$1`) at the same time.
const ALONE: &str =
    "read -r prompt || true; mkdir $1/busy; echo $prompt >> $1/order; sleep 0.1; rmdir $1/busy";

fn order(harness: &Harness, place: &str) -> Vec<String> {
    harness.place.read(&format!("{place}/order")).lines().map(str::to_owned).collect()
}

#[test]
fn two_runners_on_one_project_run_each_prompt_once_and_one_at_a_time() {
    let harness = Harness::new();
    harness.agent(ALONE);
    let _runners: [Runner; 2] = ["one", "two"]
        .map(|name| harness.runner_of(&format!("--name {name} --project-root project -- sh -e agent.sh .")));
    let ids: Vec<String> = (0..8).map(|number| harness.prompt(&number.to_string(), "")).collect();
    for id in &ids {
        let task = harness.ended(id);
        assert_eq!((&task["state"], &task["executions"]), (&"succeeded".into(), &1.into()), "{task}");
    }
    let mut ran = order(&harness, "project");
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn prompts_of_one_session_keep_their_order_and_never_run_at_once() {
    let harness = Harness::new();
    // Two projects of one namespace: only the session stands between their agents.
    harness.agent(ALONE);
    for name in ["second", "shared"] {
        std::fs::create_dir(harness.place.path(name)).expect("a test can make directories");
    }
    harness.place.write("second/agent.sh", ALONE);
    // What both may write to is declared by the operator, in a file that neither can change.
    let shared = harness.place.path("shared").display().to_string();
    let profile = format!(
        "[profiles.both]\ncommand = [\"sh\", \"-e\", \"agent.sh\", \"{shared}\"]\nconfine.read_write = [\"{shared}\"]\n"
    );
    harness.place.write("weaver.toml", &profile);
    let ids: Vec<String> = (0..8).map(|number| harness.prompt(&number.to_string(), "--session s")).collect();
    let _first = harness.runner_of("--name one --project-root project --profile both");
    let _second = harness.runner_of("--name two --project-root second --profile both");
    for id in &ids {
        assert_eq!(harness.ended(id)["state"], "succeeded");
    }
    assert_eq!(order(&harness, "shared"), ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn a_session_holds_also_for_prompts_that_come_through_the_api() {
    let harness = Harness::new();
    let id = harness.run("enqueue prompt {\"prompt\":\"hello\"} --group g").succeeded();
    let task = harness.task(id.trim());
    assert_eq!((&task["max_attempts"], &task["max_losses"]), (&1.into(), &0.into()));
    harness.agent("cat");
    let _runner = harness.runner("");
    assert_eq!(harness.ended(id.trim())["result"]["output"], "hello");
}

#[test]
fn a_prompt_that_waits_for_the_project_says_so() {
    let harness = Harness::new();
    let (begun, go) = (Pipe::new(&harness, "begun"), Pipe::new(&harness, "go"));
    harness.agent("echo begun > begun; cat go > /dev/null");
    let _runners: [Runner; 2] = ["one", "two"].map(|name| harness.runner(&format!("--name {name}")));
    let ids = ["a", "b"].map(|text| harness.prompt(text, ""));
    begun.read();
    let waiting =
        || ids.iter().any(|id| harness.run(&format!("tasks logs {id}")).out.contains("another runner"));
    crate::harness::until("one waits for the other", waiting);
    go.release();
    begun.read();
    go.release();
    for id in &ids {
        assert_eq!(harness.ended(id)["state"], "succeeded");
    }
}
