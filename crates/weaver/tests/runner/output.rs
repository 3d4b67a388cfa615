//! What an agent prints: in the attempt's log while it works, bounded, as it is; its end as the result or the
//! error.

use crate::harness::{Harness, until};
use crate::pipe::Pipe;

#[test]
fn output_is_in_the_log_while_the_agent_works() {
    let harness = Harness::new();
    let go = Pipe::new(&harness, "go");
    harness.agent("echo on my way; echo and how >&2; cat go > /dev/null");
    let _runner = harness.runner("");
    let id = harness.prompt("x", "");
    let logs = || harness.run(&format!("tasks logs {id}"));
    until("both lines are there", || logs().out.lines().count() == 2);
    assert_eq!(harness.task(&id)["state"], "running");
    go.release();
    assert_eq!(harness.ended(&id)["state"], "succeeded");
}

#[test]
fn a_flood_is_cut_in_the_log_and_its_end_is_the_result() {
    let harness = Harness::new();
    harness.agent("head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end");
    let _runner = harness.runner("");
    let task = harness.ended(&harness.prompt("x", ""));
    assert_eq!(task["state"], "succeeded");
    let output = task["result"]["output"].as_str().expect("it has some");
    assert!(output.ends_with("x\nthe end\n") && output.len() <= 32 * 1024, "{}", output.len());
    assert!(task["result"]["output_bytes"].as_u64() > Some(20_000_000));
    let id = task["id"].as_str().expect("it has one");
    let mut command = harness.command(&format!("tasks logs {id}"));
    let log = command.env("WEAVER_NAMESPACE", crate::harness::NAMESPACE).output().expect("it runs").stdout;
    assert!(log.len() > 100_000 && log.len() < 5 * 1024 * 1024, "{}", log.len());
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"the end"), "its end is kept");
    let missing = lines.iter().find(|line| line.contains("lines are missing here")).expect("it is said");
    let missing: usize =
        missing.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("how many");
    let kept = lines.iter().filter(|line| !line.starts_with('…')).count();
    // 99 letters to a line, and the end.
    assert_eq!(missing + kept, 20_000_000_usize.div_ceil(99) + 1, "exactly");
}

#[test]
fn output_that_is_no_text_is_kept_byte_for_byte() {
    let harness = Harness::new();
    harness.agent(r"printf 'a\377\000b\n'; printf '\033[31mred\n'");
    let _runner = harness.runner("");
    let task = harness.ended(&harness.prompt("x", ""));
    assert_eq!(task["result"]["output"], "a\u{fffd}\0b\n\u{1b}[31mred\n");
    let id = task["id"].as_str().expect("it has one");
    let mut command = harness.command(&format!("tasks logs {id}"));
    let log = command.env("WEAVER_NAMESPACE", crate::harness::NAMESPACE).output().expect("it runs").stdout;
    assert_eq!(log, b"a\xff\0b\n\x1b[31mred\n");
}

#[test]
fn an_exit_code_is_an_error_with_the_end_of_the_output() {
    let harness = Harness::new();
    harness.agent("echo out; echo disk full >&2; exit 3");
    let _runner = harness.runner("");
    let task = harness.ended(&harness.prompt("x", ""));
    assert_eq!(
        (&task["state"], &task["executions"], &task["max_attempts"]),
        (&"dead".into(), &1.into(), &1.into())
    );
    let error = task["last_error"].as_str().expect("it says why");
    assert!(error.starts_with("`sh -e agent.sh` exited with code 3"), "{error}");
    assert!(error.contains("out") && error.contains("disk full"), "{error}");
    harness.agent("kill -9 $$");
    let error =
        harness.ended(&harness.prompt("x", ""))["last_error"].as_str().expect("it says why").to_owned();
    assert!(error.contains("signal 9") && error.contains("without output"), "{error}");
    // Asked for, it is tried again.
    harness.agent("test -e tried && exec echo now; touch tried; exit 1");
    let task = harness.ended(&harness.prompt("x", "--max-attempts 2"));
    assert_eq!((&task["state"], &task["executions"]), (&"succeeded".into(), &2.into()));
}
