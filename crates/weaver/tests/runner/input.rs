//! How the prompt gets to the agent, and what else the agent is given.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Harness, NAMESPACE, until};
use crate::support::{Place, Run};

fn prompt_from_stdin(harness: &Harness, flags: &str, text: &[u8]) -> Run {
    let mut command = harness.command(&format!("prompt {flags} -"));
    let command = command.env("WEAVER_NAMESPACE", NAMESPACE).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    child.stdin.take().expect("it is piped").write_all(text).expect("it reads");
    Run::from(child.wait_with_output().expect("it ends"))
}

#[test]
fn a_prompt_of_a_mebibyte_arrives_whole() {
    let harness = Harness::new();
    harness.agent("cat > got; wc -c < got");
    let _runner = harness.runner("");
    let text = "世界\n\"'$(x)\\".repeat(1024 * 1024 / 14 + 1);
    let text = &text[..text.floor_char_boundary(1024 * 1024)];
    let answer = prompt_from_stdin(&harness, "--wait", text.as_bytes()).succeeded();
    assert_eq!(answer.trim(), text.len().to_string());
    assert!(text.len() > 1024 * 1024 - 3);
    assert_eq!(harness.place.read("project/got"), text);
}

#[test]
fn a_prompt_in_a_file_is_its_owners_alone_and_removed_afterwards() {
    let harness = Harness::new();
    harness.agent("stat -c '%a' \"$1\"; cat \"$1\"; echo \"$1\" > path; cat");
    let _runner = harness.runner_of("--project-root project -- sh -e agent.sh {prompt_file}");
    let answer = Run::of(
        harness.command("prompt --wait").env("WEAVER_NAMESPACE", NAMESPACE).args(["--", "--help -rf"]),
    );
    assert_eq!(answer.succeeded(), "600\n--help -rf\n");
    assert!(!std::path::Path::new(harness.place.read("project/path").trim()).exists());
}

#[test]
fn a_project_does_not_decide_about_its_own_agents_confinement_and_holds_no_token() {
    let harness = Harness::new();
    let refused = |config: &str| {
        harness.place.write("project/weaver.toml", config);
        let mut command = harness.command("runner --profile free -n app --project-root .");
        let run = Run::of(command.current_dir(harness.project()));
        assert_eq!(run.code, Some(6), "{}{}", run.out, run.errors);
        run.errors
    };
    let profile = "[profiles.free]\ncommand = [\"true\"]\n";
    assert!(refused(&format!("{profile}confine.unconfined = true\n")).contains("change its own confinement"));
    assert!(
        refused(&format!("{profile}[confine]\nmode = \"landlock\"\n")).contains("change its own confinement")
    );
    assert!(refused(&format!("token = \"wv_x\"\n{profile}")).contains("WEAVER_TOKEN_FILE"));
}

#[test]
fn a_prompt_that_looks_like_an_option_is_none() {
    let harness = Harness::new();
    harness.agent("echo \"$# arguments\"; cat");
    let _runner = harness.runner("");
    let answer = Run::of(
        harness.command("prompt --wait").env("WEAVER_NAMESPACE", NAMESPACE).args(["--", "--version"]),
    );
    assert_eq!(answer.succeeded(), "0 arguments\n--version\n");
}

#[test]
fn an_agent_knows_its_task_and_none_of_the_runners_secrets() {
    let harness = Harness::new();
    harness.agent("env | sort");
    let mut command = harness.command("runner --log warn --project-root project -- sh agent.sh");
    command.env("WEAVER_NAMESPACE", NAMESPACE).env("AWS_SECRET_ACCESS_KEY", "secret-1");
    command
        .env("WEAVER_TOKEN", Run::of(&mut harness.command("token")).succeeded().trim())
        .env("LC_TIME", "C");
    let _runner = crate::harness::Runner::start(&mut command);
    let seen = harness.run("prompt --wait --group g --session s x").succeeded();
    let names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    for wanted in ["PATH", "LC_TIME", "WEAVER_TASK_ID", "WEAVER_ATTEMPT", "WEAVER_FENCE"] {
        assert!(names.contains(&wanted), "no {wanted} in {names:?}");
    }
    for line in ["WEAVER_NAMESPACE=app", "WEAVER_TASK_GROUP_ID=g", "WEAVER_SESSION_ID=s", "WEAVER_ATTEMPT=1"]
    {
        assert!(seen.lines().any(|seen| seen == line), "no {line} in\n{seen}");
    }
    for secret in ["WEAVER_TOKEN", "WEAVER_SERVER", "AWS_SECRET_ACCESS_KEY", "wvr_", "secret-1"] {
        assert!(!seen.contains(secret), "{secret} in\n{seen}");
    }
}

#[test]
fn a_command_that_does_not_exist_is_an_error_of_the_task_and_the_runner_lives() {
    let harness = Harness::new();
    let runner = harness.runner_of("--name r1 --project-root project -- ./agent");
    let task = harness.ended(&harness.prompt("x", ""));
    assert_eq!((&task["state"], &task["executions"]), (&"dead".into(), &1.into()));
    let error = task["last_error"].as_str().expect("it says why");
    assert!(error.contains("./agent") && error.contains("is not an executable file"), "{error}");
    // Installed meanwhile, it is found.
    harness.place.write("project/agent", "#!/bin/sh\ncat\n");
    let path = harness.project().join("agent");
    assert!(std::process::Command::new("chmod").arg("+x").arg(path).status().is_ok());
    assert_eq!(harness.run("prompt --wait hello").succeeded(), "hello\n");
    assert_eq!(harness.runners()[0]["status"], "running");
    assert_eq!(runner.stop().code, Some(0));
}

#[test]
fn a_profile_of_the_file_is_enough() {
    let harness = Harness::new();
    harness.place.write(
        "weaver.toml",
        "[profiles.echo]\ncommand = [\"sh\", \"-c\", \"cat; echo $MINE $THEIRS\"]\npass_env = [\"MINE\"]\n",
    );
    let mut command = harness.command("runner --log warn --profile echo --project-root project");
    command.env("WEAVER_NAMESPACE", NAMESPACE).env("MINE", "mine").env("THEIRS", "theirs");
    let runner = crate::harness::Runner::start(&mut command);
    assert!(runner.said.contains("profile `echo` of weaver.toml:1"), "{}", runner.said);
    assert_eq!(harness.run("prompt --wait hello").succeeded(), "hellomine\n");
}

#[test]
fn a_runner_with_invalid_settings_is_refused_at_once() {
    let place = Place::new();
    place.run("runner").failed(2, &["no command", "--profile"]);
    place.run("runner --profile none").failed(3, &["profile `none` not found", "[profiles.none]"]);
    place.run("runner -- agent {prompt}").failed(2, &["{prompt}", "{prompt_file}"]);
    place.run("runner --project-root none -- agent").failed(3, &["none"]);
    place.run("runner --server http://127.0.0.1:9 --lease 1ms -- agent").failed(2, &["lease"]);
    place.run("runner --server http://127.0.0.1:9 --poll 1h -- agent").failed(2, &["poll"]);
    place.write("weaver.toml", "[profiles.a]\ncommand = [\"a\"]\npass_env = [\"WEAVER_TOKEN\"]\n");
    place.run("runner --server http://127.0.0.1:9 --profile a").failed(2, &["WEAVER_TOKEN"]);
    place.run("runner --profile b").failed(3, &["profile `b` not found", "weaver.toml:1: a"]);
    let mut empty = place.command("prompt");
    Run::of(empty.arg("  ")).failed(2, &["the prompt is empty"]);
}

#[test]
fn a_new_prompt_wakes_a_runner_that_polls_seldom() {
    let harness = Harness::new();
    harness.agent("cat");
    // Half a minute between polls: only a wake-up can be in time.
    let _runner = harness.runner_of("--poll 30s --project-root project -- sh agent.sh");
    until("it has said that it is there", || harness.runners().len() == 1);
    assert_eq!(harness.run("prompt --wait hello").succeeded(), "hello\n");
}
