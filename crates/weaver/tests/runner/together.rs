//! Several runners: every prompt is run once, a project has one agent at a time, a session keeps its order.

use crate::bed::{Bed, Runner};
use crate::pipe::Pipe;

/// Fails if another agent works in the same place (`$1`) at the same time.
const ALONE: &str =
    "read -r prompt || true; mkdir $1/busy; echo $prompt >> $1/order; sleep 0.1; rmdir $1/busy";

fn order(bed: &Bed, place: &str) -> Vec<String> {
    bed.place.read(&format!("{place}/order")).lines().map(str::to_owned).collect()
}

#[test]
fn two_runners_on_one_project_run_each_prompt_once_and_one_at_a_time() {
    let bed = Bed::new();
    bed.agent(ALONE);
    let _runners: [Runner; 2] = ["one", "two"]
        .map(|name| bed.runner_of(&format!("--name {name} --project-root project -- sh -e agent.sh .")));
    let ids: Vec<String> = (0..8).map(|number| bed.prompt(&number.to_string(), "")).collect();
    for id in &ids {
        let task = bed.ended(id);
        assert_eq!((&task["state"], &task["executions"]), (&"succeeded".into(), &1.into()), "{task}");
    }
    let mut ran = order(&bed, "project");
    ran.sort();
    assert_eq!(ran, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn prompts_of_one_session_keep_their_order_and_never_run_at_once() {
    let bed = Bed::new();
    // Two projects of one namespace: only the session stands between their agents.
    bed.agent(ALONE);
    for name in ["second", "shared"] {
        std::fs::create_dir(bed.place.path(name)).expect("a test can make directories");
    }
    bed.place.write("second/agent.sh", ALONE);
    // What both may write to is declared by the operator, in a file that neither can change.
    let shared = bed.place.path("shared").display().to_string();
    let profile = format!(
        "[profiles.both]\ncommand = [\"sh\", \"-e\", \"agent.sh\", \"{shared}\"]\nconfine.read_write = [\"{shared}\"]\n"
    );
    bed.place.write("weaver.toml", &profile);
    let ids: Vec<String> = (0..8).map(|number| bed.prompt(&number.to_string(), "--session s")).collect();
    let _first = bed.runner_of("--name one --project-root project --profile both");
    let _second = bed.runner_of("--name two --project-root second --profile both");
    for id in &ids {
        assert_eq!(bed.ended(id)["state"], "succeeded");
    }
    assert_eq!(order(&bed, "shared"), ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn a_session_holds_also_for_prompts_that_come_through_the_api() {
    let bed = Bed::new();
    let id = bed.run("enqueue prompt {\"prompt\":\"hello\"} --group g").succeeded();
    let task = bed.task(id.trim());
    assert_eq!((&task["max_attempts"], &task["max_losses"]), (&1.into(), &0.into()));
    bed.agent("cat");
    let _runner = bed.runner("");
    assert_eq!(bed.ended(id.trim())["result"]["output"], "hello");
}

#[test]
fn a_prompt_that_waits_for_the_project_says_so() {
    let bed = Bed::new();
    let (begun, go) = (Pipe::new(&bed, "begun"), Pipe::new(&bed, "go"));
    bed.agent("echo begun > begun; cat go > /dev/null");
    let _runners: [Runner; 2] = ["one", "two"].map(|name| bed.runner(&format!("--name {name}")));
    let ids = ["a", "b"].map(|text| bed.prompt(text, ""));
    begun.read();
    let waiting = || ids.iter().any(|id| bed.run(&format!("tasks logs {id}")).out.contains("another runner"));
    crate::bed::until("one waits for the other", waiting);
    go.release();
    begun.read();
    go.release();
    for id in &ids {
        assert_eq!(bed.ended(id)["state"], "succeeded");
    }
}
