//! The examples end well, and print what they are there to show.

use std::path::Path;
use std::process::Command;

/// Builds an example, runs it, and returns what it printed.
///
/// Built with the features of the gate, whose compiled crates it then shares: with others, half the workspace
/// would be compiled once more for it. That the library builds with fewer features is `lean`'s to show.
fn printed_by(example: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--workspace", "--all-features", "--example", example]);
    // What cargo tells a test of its package: build scripts that look at it would run again, now and in the
    // next build.
    let is_set_by_cargo = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars().filter(|(name, _)| is_set_by_cargo(name)) {
        build.env_remove(name);
    }
    ended_well(example, build.current_dir(&root));
    // <target>/<profile>/deps/<test>
    let test = std::env::current_exe().expect("a test is a file");
    let profile = test.ancestors().nth(2).expect("tests lie in the build's directory");
    ended_well(example, Command::new(profile.join("examples").join(example)).current_dir(root))
}

/// What a command printed.
fn ended_well(example: &str, command: &mut Command) -> String {
    let output = command.output().expect("the command can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} ended with {}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that these lines are printed, in this order, perhaps with others in between.
fn assert_prints(example: &str, expected: &[&str]) {
    let printed = printed_by(example);
    let mut lines = printed.lines();
    for line in expected {
        assert!(lines.any(|printed| printed.contains(line)), "no `{line}` (in this order) in:\n{printed}");
    }
}

#[test]
fn hello_gets_its_result_back() {
    let expected = ["task 1, attempt 1", "the result: Hello, Ada!", "succeeded: 1"];
    assert_prints("hello", &expected);
}

#[test]
fn retries_follow_their_backoff_and_a_fatal_error_ends_them() {
    let expected = [
        "flaky: succeeded, failures: 2",
        "3s  Succeeded",
        "busy: succeeded, failures: 1",
        "60s  Succeeded",
        "early: succeeded, failures: 0",
        "unknown: dead, failures: 1",
        "down: dead, failures: 5",
        "15s  Failed connection refused",
    ];
    assert_prints("retries", &expected);
}

#[test]
fn delayed_tasks_start_at_their_time_and_expired_ones_do_not() {
    let expected = [
        "due at 2026-01-01T18:00:00",
        "2026-01-01T00:00:00.000000Z  now",
        "2026-01-01T00:00:00.000000Z  after all, now",
        "2026-01-01T09:00:00.000000Z  at nine",
        "2026-01-02T00:00:00.000000Z  tomorrow",
        "lunch is cancelled",
    ];
    assert_prints("delayed", &expected);
}

#[test]
fn serial_keys_keep_the_order_and_never_overlap() {
    let expected = [
        "task 1 with the same serial key starts first",
        "never two at once: ada 1, ada 2, ada 3",
        "never two at once: grace 1, grace 2, grace 3",
    ];
    assert_prints("serial_keys", &expected);
}

#[test]
fn cancel_ends_the_task_at_once_and_tells_the_handler_which_ends_its_process() {
    let expected = [
        "the process runs",
        "the task is cancelled",
        "signalled to stop (Some(Cancelled)): the process has ended",
        "the worker counts 1 cancelled",
    ];
    assert_prints("cancel", &expected);
}

#[test]
fn progress_is_read_while_the_handler_runs() {
    let expected = ["running: ", "succeeded: Some(b\"50\")", "log: importing 50 rows", "log: done"];
    assert_prints("progress", &expected);
}

#[test]
fn shutdown_lets_one_handler_finish_and_releases_the_other_task() {
    let expected = [
        "the task of 50 ms has finished",
        "the task of 60000 ms is signalled to stop (Some(Shutdown))",
        "1 succeeded, 1 released, 0 failed",
        "the long one: task default/2 is retry_scheduled",
        "its failures: 0",
    ];
    assert_prints("shutdown", &expected);
}

#[test]
fn testing_runs_a_week_in_no_time() {
    let expected =
        ["inline: it welcomes", "drained: remind succeeded in attempt 2", "a week has passed, in no time"];
    assert_prints("testing", &expected);
}
