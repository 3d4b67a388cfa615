//! A prompt's whole life, on every store: queued, run by an agent, answered; the runner's record beside it.

use serde_json::Value;

use crate::harness::{Harness, NAMESPACE, until};
use crate::pipe::Pipe;
use crate::support::{Place, Run};

/// What every store must carry. A new store joins with a harness on its URL.
fn a_prompt_goes_through_its_whole_life(harness: &Harness) {
    let (begun, go) = (Pipe::new(harness, "begun"), Pipe::new(harness, "go"));
    harness.agent("read -r prompt || true; echo thinking >&2; echo begun > begun; cat go >/dev/null; echo \"you said: $prompt\"");
    let first = harness.prompt("héllo 世界", "--group g1 --session s1");
    let second = harness.prompt("and then?", "--group g1 --session s1");
    assert_eq!(harness.task(&first)["state"], "queued");

    let runner = harness.runner("--name r1");
    begun.read();
    let running = harness.task(&first);
    assert_eq!((&running["state"], &running["lease"]["worker"]), (&"running".into(), &"r1".into()));
    assert_eq!(harness.task(&second)["state"], "queued", "one at a time");
    check_runner_record(harness);
    let groups = harness.run("tasks groups").succeeded();
    let row = groups.lines().find(|line| line.starts_with("g1")).expect("the group is listed");
    assert_eq!(
        row.split_whitespace().take(6).collect::<Vec<_>>(),
        ["g1", "1", "1", "0", "0", "0"],
        "{groups}"
    );
    go.release();

    let done = harness.ended(&first);
    assert_eq!(done["state"], "succeeded");
    let result = &done["result"];
    assert_eq!((&result["exit_code"], &result["output"]), (&0.into(), &"you said: héllo 世界\n".into()));
    assert_eq!(harness.run(&format!("tasks logs {first}")).succeeded(), "thinking\nyou said: héllo 世界\n");
    begun.read();
    go.release();
    assert_eq!(harness.ended(&second)["state"], "succeeded");

    let stopped = runner.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.errors);
    assert!(stopped.out.contains("2 succeeded"), "{}", stopped.out);
    let record = harness.runners().remove(0);
    assert_eq!((&record["status"], &record["alive"]), (&"stopped".into(), &false.into()));
}

/// `runner_id`, namespace, heartbeat, start, status and project are there, and the heart beats while the
/// agent works.
fn check_runner_record(harness: &Harness) {
    let record = harness.runners().remove(0);
    let heartbeat = &record["heartbeat"];
    assert_eq!((&heartbeat["worker_id"], &heartbeat["namespace"]), (&"r1".into(), &NAMESPACE.into()));
    assert_eq!((&record["status"], &record["alive"]), (&"running".into(), &true.into()));
    let root = harness.project().canonicalize().expect("it is there").display().to_string();
    assert_eq!(heartbeat["project_root"], root);
    assert_eq!(heartbeat["capacity"], 1);
    until("it says that it is busy", || harness.runners()[0]["heartbeat"]["running"] == 1);
    assert!(heartbeat["started_at"].as_str() <= record["last_heartbeat_at"].as_str(), "{record}");
    let first = record["last_heartbeat_at"].clone();
    until("the heart beats while the agent works", || harness.runners()[0]["last_heartbeat_at"] != first);
}

#[test]
fn a_prompt_goes_through_its_whole_life_in_memory() {
    a_prompt_goes_through_its_whole_life(&Harness::on("memory:"));
}

#[test]
fn a_prompt_goes_through_its_whole_life_on_the_embedded_store() {
    a_prompt_goes_through_its_whole_life(&Harness::on("./weaver-data"));
}

#[cfg(feature = "postgres")]
#[test]
fn a_prompt_goes_through_its_whole_life_on_postgresql() {
    let server = weaver_testkit::services::postgres::Shared::server();
    let url = format!("{}?schema=runner_{}", server.url(), weaver_testkit::services::process_key());
    a_prompt_goes_through_its_whole_life(&Harness::on(&url));
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_prompt_goes_through_its_whole_life_on_dynamodb() {
    let url = weaver_testkit::services::dynamodb::endpoint().replace("http://", "dynamodb://");
    // DynamoDB Local keeps a database per access key.
    let key = format!("runner{}", weaver_testkit::services::process_key());
    let variables =
        [("AWS_ACCESS_KEY_ID", key.as_str()), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_REGION", "local")];
    a_prompt_goes_through_its_whole_life(&Harness::on_with(&url, &variables));
}

#[test]
fn a_runner_works_on_a_store_of_its_own() {
    let place = Place::with_store();
    place.write("agent.sh", "cat > said; echo done > ended");
    assert!(std::process::Command::new("mkfifo").arg(place.path("ended")).status().is_ok());
    let put = place.run("prompt --store ./weaver-data --namespace app hello").succeeded();
    assert_eq!(put, "1\n");
    let mut command =
        place.command("runner --store ./weaver-data --namespace app --log warn -- sh -e agent.sh");
    let runner = crate::harness::Runner::start(&mut command);
    assert_eq!(place.read("ended"), "done\n");
    let stopped = runner.stop();
    assert!(stopped.out.contains("1 succeeded"), "{}{}", stopped.out, stopped.errors);
    assert_eq!(place.read("said"), "hello");
    place.run("prompt --store ./weaver-data --wait hello").failed(2, &["--wait"]);
    place.run("prompt --store ./none hello").failed(3, &["no store in ./none"]);
}

#[test]
fn a_prompt_is_followed_line_by_line_or_waited_for() {
    let harness = Harness::new();
    harness.agent("cat; echo; echo progress >&2; sleep 0; echo the answer");
    let _runner = harness.runner("");
    let followed = harness.run("prompt --follow question").succeeded();
    assert!(followed.contains("question\n") && followed.contains("progress\n"), "{followed}");
    assert_eq!(harness.run("prompt --wait question").succeeded(), "question\nthe answer\n");
    harness.agent("echo no >&2; exit 3");
    harness.run("prompt --wait question").failed(7, &["exited with code 3", "no"]);
    let json: Value = harness.run("prompt --output json question").json();
    assert_eq!(json["namespace"], NAMESPACE);
}

#[test]
fn a_namespace_is_named_by_flag_then_variable_then_file_then_the_projects_path() {
    let harness = Harness::new();
    harness.agent("cat");
    let start = |flags: &str, variable: Option<&str>| {
        let mut command =
            harness.command(&format!("runner --log warn {flags} --project-root project -- sh agent.sh"));
        variable.map(|name| command.env("WEAVER_NAMESPACE", name));
        crate::harness::Runner::start(&mut command).said
    };
    let line =
        |said: &str| said.lines().find(|line| line.contains("namespace")).unwrap_or_default().to_owned();
    let flag = line(&start("--namespace by-flag", Some("by-variable")));
    assert!(flag.contains("by-flag") && flag.contains("--namespace"), "{flag}");
    let variable = line(&start("", Some("by-variable")));
    assert!(variable.contains("by-variable") && variable.contains("WEAVER_NAMESPACE"), "{variable}");
    let derived = line(&start("", None));
    assert!(derived.contains("project-") && derived.contains("the project's path"), "{derived}");
    assert_eq!(derived, line(&start("", None)), "the same every time");
    // A prompt from the same project reaches the same runner.
    let mut prompt = harness.command("prompt --project-root project --output json hello");
    let namespace = Run::of(&mut prompt).json()["namespace"].as_str().expect("a name").to_owned();
    assert!(derived.contains(&namespace), "{derived} {namespace}");
    harness.place.write("weaver.toml", "namespace = \"by-file\"\n");
    let file = line(&start("", None));
    assert!(file.contains("by-file") && file.contains("weaver.toml:1"), "{file}");
}
