//! The README's commands do what they say.

use std::path::Path;
use std::process::Command;

/// The commands of a page: lines that begin with `$ ` in its `console` blocks.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[test]
fn the_readme_has_two_commands_and_the_first_runs_the_tour() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let commands = commands(&readme);
    // The second is the gate that runs this test.
    let [run, "cargo xtask test"] = commands[..] else { panic!("the README's commands are {commands:?}") };
    let output = Command::new("sh").args(["-c", run]).current_dir(root).output().expect("a shell is there");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("attempt 2 on mailer-1: Succeeded"), "{printed}");
}
