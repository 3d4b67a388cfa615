//! `exec`: the allow-list, and the result and the log of commands.

use serde_json::json;
use weaver_core::prelude::*;
use weaver_handlers::{BuiltIn, ExecHandler, ExecPolicy, register};
use weaver_process::Isolation;
use weaver_runtime::Registry;

use crate::harness::{Dir, Harness, error, in_time, result, settle};

fn sh(dir: &Dir, script: &str) -> ExecPolicy {
    ExecPolicy::new(dir.path()).unconfined().allow("sh", "/bin/sh", ["-c", script])
}

fn task(payload: &serde_json::Value) -> NewTask {
    NewTask::new("exec").json(payload).unwrap().max_attempts(1)
}

async fn run(policy: ExecPolicy, payload: serde_json::Value, state: TaskState) -> (TaskRecord, Vec<String>) {
    let harness = Harness::new();
    let record = harness.run(harness.exec(policy), task(&payload), state).await;
    let log = harness.log(&record.key, 1).await;
    (record, log)
}

#[tokio::test]
async fn a_command_succeeds_with_its_output_as_result_and_its_lines_in_the_log() {
    let dir = Dir::new();
    let policy = sh(&dir, "echo one; echo two; echo three >&2");
    let (record, log) = run(policy, json!({"command": "sh"}), TaskState::Succeeded).await;
    assert_eq!(result(&record)["exit_code"], 0);
    assert_eq!(result(&record)["output_bytes"], 14);
    assert!(result(&record)["output"].as_str().unwrap().contains("one\ntwo\n"));
    let stdout: Vec<_> = log.iter().filter(|line| *line != "three").collect();
    assert_eq!(stdout, ["one", "two"]);
    assert_eq!(log.len(), 3);
}

#[tokio::test]
async fn a_value_is_always_one_argument() {
    let dir = Dir::new();
    let args = ["[%s]", "--to={to}", "fixed", "--", "{file}"];
    let policy = ExecPolicy::new(dir.path()).unconfined().allow("print", "/usr/bin/printf", args);
    let values = json!({"to": "a b\"; touch $(pwd)/x 'y' *", "file": "-rf"});
    let (record, _) = run(policy, json!({"command": "print", "values": values}), TaskState::Succeeded).await;
    assert_eq!(result(&record)["output"], "[--to=a b\"; touch $(pwd)/x 'y' *][fixed][--][-rf]");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_command_that_is_not_allowed_is_dead_at_once_and_the_error_lists_the_allowed_ones() {
    let dir = Dir::new();
    let policy = sh(&dir, "true").allow("backup", "/bin/true", [""; 0]);
    let harness = Harness::new();
    let task = NewTask::new("exec").json(&json!({"command": "/bin/rm"})).unwrap();
    let record = harness.run(harness.exec(policy), task, TaskState::Dead).await;
    assert_eq!(record.executions, 1);
    assert_eq!(error(&record), "command `/bin/rm` is not allowed; allowed: `backup`, `sh`");
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_refused_and_never_run() {
    let dir = Dir::new();
    for (payload, said) in [
        (json!({"command": "echo"}), "`values.what` is missing"),
        (json!({"command": "echo", "values": {"what": "-n"}}), "option"),
        (json!({"command": "echo", "values": {"what": "x", "more": "y"}}), "has no value `more`"),
        (json!({"command": "echo", "values": {"what": "x"}, "env": {"LD_PRELOAD": "x"}}), "allowed: `LANG`"),
        (json!({"command": "echo", "values": {"what": "x"}, "args": ["y"]}), "args"),
    ] {
        let mut policy = ExecPolicy::new(dir.path()).unconfined().allow("echo", "/bin/echo", ["{what}"]);
        policy.task_env.insert("LANG".to_owned());
        let (record, log) = run(policy, payload, TaskState::Dead).await;
        assert!(error(&record).contains(said), "{}", error(&record));
        assert_eq!(log, [""; 0]);
    }
}

#[tokio::test]
async fn a_command_has_only_the_allowed_environment() {
    let dir = Dir::new();
    let mut policy = ExecPolicy::new(dir.path()).unconfined().allow("env", "/usr/bin/env", [""; 0]);
    policy.inherit_env.insert("PATH".to_owned());
    policy.task_env.insert("LANG".to_owned());
    let payload = json!({"command": "env", "env": {"LANG": "C"}});
    let (record, log) = run(policy, payload, TaskState::Succeeded).await;
    let mut names: Vec<_> = log.iter().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    let own = ["WEAVER_ATTEMPT", "WEAVER_FENCE", "WEAVER_NAMESPACE", "WEAVER_PROCESS_MARK", "WEAVER_TASK_ID"];
    assert_eq!(names, [&["LANG", "PATH"], &own[..]].concat());
    assert!(log.contains(&format!("WEAVER_TASK_ID={}", record.key.id)));
}

#[tokio::test]
async fn a_directory_below_the_root_is_entered_and_no_other() {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("root/a/b")).unwrap();
    std::fs::create_dir_all(dir.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("root/inner")).unwrap();
    std::os::unix::fs::symlink("../outside", dir.path().join("root/out")).unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("root/a/top")).unwrap();
    let policy = || ExecPolicy::new(dir.path().join("root")).unconfined().allow("pwd", "/bin/pwd", [""; 0]);
    for (asked, entered) in [("a/b", "root/a/b"), ("inner/b", "root/a/b"), (".", "root"), ("", "root")] {
        let (record, _) = run(policy(), json!({"command": "pwd", "dir": asked}), TaskState::Succeeded).await;
        let expected = format!("{}\n", dir.path().join(entered).display());
        assert_eq!(result(&record)["output"], expected);
    }
    for asked in ["..", "a/../..", "/tmp", "out", "a/top", "a/top/tmp", "missing"] {
        let (record, _) = run(policy(), json!({"command": "pwd", "dir": asked}), TaskState::Dead).await;
        assert!(error(&record).contains(&format!("`dir` is `{asked}`")), "{}", error(&record));
    }
}

#[tokio::test]
async fn the_error_of_a_failed_command_has_its_code_or_signal_and_its_last_output() {
    let dir = Dir::new();
    let (record, _) =
        run(sh(&dir, "echo disk full >&2; exit 3"), json!({"command": "sh"}), TaskState::Dead).await;
    assert_eq!(error(&record), "`sh` exited with code 3; last output:\ndisk full");
    let (record, _) = run(sh(&dir, "kill -9 $$"), json!({"command": "sh"}), TaskState::Dead).await;
    assert_eq!(error(&record), "`sh` was killed by signal 9 without output");
}

#[tokio::test]
async fn a_missing_program_is_a_failure_that_is_retried() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let policy = ExecPolicy::new(dir.path()).unconfined().allow("gone", "/nowhere/gone", [""; 0]);
    let task = NewTask::new("exec").json(&json!({"command": "gone"})).unwrap();
    let record = harness.run(harness.exec(policy), task, TaskState::RetryScheduled).await;
    assert!(error(&record).contains("cannot run `gone` (/nowhere/gone)"), "{}", error(&record));
}

#[tokio::test]
async fn a_flood_of_output_is_truncated_in_the_log_and_its_tail_is_the_result() {
    let dir = Dir::new();
    let mut policy = sh(&dir, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo the end");
    policy.output_max_bytes = 4000;
    let (record, log) = run(policy, json!({"command": "sh"}), TaskState::Succeeded).await;
    assert!(result(&record)["output"].as_str().unwrap().ends_with("line 19999\nthe end\n"));
    assert!(result(&record)["output_bytes"].as_u64().unwrap() > 200_000);
    assert_eq!(log[0], "line 0");
    assert_eq!(log.last().map(String::as_str), Some("the end"), "the end is kept");
    let note = log.iter().find(|line| line.contains("lines are missing here")).expect("it is said");
    let missing: usize = note.split_whitespace().nth(1).unwrap().parse().expect("a number");
    let kept = log.iter().filter(|line| !line.starts_with('…')).count();
    assert_eq!(missing + kept, 20_001, "{note}");
    assert!(log.iter().map(String::len).sum::<usize>() < 4100);
}

#[tokio::test]
async fn binary_output_and_endless_lines_are_handled() {
    let dir = Dir::new();
    let script = r"printf 'a\377\000b\n'; head -c 10000 /dev/zero | tr '\0' x";
    let mut policy = sh(&dir, script);
    policy.inherit_env.insert("PATH".to_owned());
    let (record, log) = run(policy, json!({"command": "sh"}), TaskState::Succeeded).await;
    assert_eq!(log[0], "a\u{fffd}\0b");
    assert_eq!(log[1..].iter().map(String::len).collect::<Vec<_>>(), [4096, 4096, 1808]);
    assert_eq!(result(&record)["output"].as_str().unwrap().len(), 8192);
}

#[tokio::test]
async fn output_is_in_the_log_while_the_command_still_runs() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let begun = dir.pipe("begun");
    let mut policy = sh(&dir, "echo hello; echo > begun; exec sleep 1000");
    policy.inherit_env.insert("PATH".to_owned());
    let running = harness.work(harness.exec(policy));
    let key = harness.enqueue(task(&json!({"command": "sh"}))).await;
    begun.read().await;
    let logged = async {
        while harness.log(&key, 1).await != ["hello"] {
            // Logs are written once a second.
            harness.clock.advance(std::time::Duration::from_secs(1));
            settle().await;
        }
    };
    in_time("the line is in the log", logged).await;
    assert_eq!(harness.record(&key).await.state, TaskState::Running);
    running.worker.abort();
}

#[tokio::test]
async fn exec_is_off_until_the_operator_writes_a_policy_for_it() {
    let (harness, dir) = (Harness::new(), Dir::new());
    let types = |built_in: BuiltIn| {
        let registry = register(Registry::new(), built_in, &Isolation::default(), &harness.clock()).unwrap();
        registry.types().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(types(BuiltIn::default()), ["http"]);
    let exec =
        json!({"working_root": dir.path(), "commands": {"ls": {"program": "/bin/ls", "args": ["{file}"]}}});
    let built_in = json!({"exec": exec, "http": {"allow_networks": ["10.0.0.0/8"]}});
    assert_eq!(types(serde_json::from_value(built_in).unwrap()), ["exec", "http"]);
}

#[tokio::test]
async fn an_invalid_policy_is_refused_with_its_key() {
    let dir = Dir::new();
    let harness = Harness::new();
    let refused =
        |policy| ExecHandler::new(policy, &Isolation::default(), harness.clock()).unwrap_err().to_string();
    let relative = refused(ExecPolicy::new(dir.path()).unconfined().allow("ls", "ls", [""; 0]));
    assert_eq!(relative, "exec.commands.ls: `ls` is not an absolute path");
    let template = refused(ExecPolicy::new(dir.path()).unconfined().allow("ls", "/bin/ls", ["{"]));
    assert!(template.starts_with("exec.commands.ls: `{`"), "{template}");
    assert!(refused(ExecPolicy::new("work")).starts_with("exec.working_root"));
    assert!(refused(ExecPolicy::new("/nowhere/work")).starts_with("exec.working_root"));
}
