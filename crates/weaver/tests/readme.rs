//! The README's commands do what they say.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of a page: lines that begin with `$ ` in its `console` blocks.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")).collect()
}

#[test]
fn the_readme_has_two_commands_and_the_first_reaches_a_live_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let commands = commands(&readme);
    // The second is the gate that runs this test.
    let [run, "cargo xtask test"] = commands[..] else { panic!("the README's commands are {commands:?}") };
    let arguments = run.strip_prefix("cargo run --package weaver -- ").expect("it runs the command");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("readme-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the target directory can be written");
    let weaver = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
        command.args(arguments.split_whitespace()).current_dir(&directory);
        // Its own port may be taken on this machine.
        command.env("WEAVER_SERVE_LISTEN", "127.0.0.1:0");
        // And its user may have servers of their own.
        command.env("XDG_RUNTIME_DIR", directory.join("run")).env("XDG_STATE_HOME", directory.join("state"));
        command
    };
    let mut server = weaver(arguments).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let first = lines.next().expect("it says where it listens");
    let hint = lines.find_map(|line| Some(line.trim().strip_prefix("try ")?.trim().to_owned()));
    let hint = hint.as_deref().and_then(|hint| hint.strip_prefix("weaver ")).expect("it says what to try");
    let output = weaver(hint).output().expect("the command starts");
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    let _ = std::fs::remove_dir_all(&directory); // Best effort: leftovers are harmless.
    let listed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && listed.contains("demo.hello"), "{first}\n{hint}\n{listed}{errors}");
}
