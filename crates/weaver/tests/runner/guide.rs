//! The guide is a transcript: its commands are run in their order, and print what it says.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::bed::until;
use crate::support::{Place, Run, shell};

/// A command of the guide, and what it prints.
struct Step<'a> {
    command: &'a str,
    printed: Vec<&'a str>,
}

#[test]
fn every_command_of_the_guide_for_agents_prints_what_the_guide_says() {
    let guide = include_str!("../../../../docs/guides/agent-runner.md");
    let steps = steps(guide);
    assert!(steps.len() > 12, "{}", steps.len());
    let place = Place::new();
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("there is one").port();
    let mut background = Vec::new();
    for Step { command, printed } in steps {
        match command.strip_suffix('&') {
            Some(command) => background.push(Background::start(&place, command.trim_end(), port)),
            None => {
                let run = Run::of(&mut shell_of(&place, command, port));
                assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
                let said: Vec<&str> = run.out.lines().collect();
                let is = |line: &str, said: &str| matches(line, said.trim_end());
                let as_written = printed.iter().enumerate().all(|(index, line)| {
                    // Both streams of the agent are followed, and nothing says which line of which came
                    // first.
                    let in_any_order = command.contains("--follow") && said.iter().any(|said| is(line, said));
                    in_any_order || said.get(index).is_some_and(|said| is(line, said))
                });
                assert!(as_written, "{command}\nprints\n{}not\n{}", run.out, printed.join("\n"));
            }
        }
    }
}

fn steps(guide: &str) -> Vec<Step<'_>> {
    let blocks = guide.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command, printed: Vec::new() }),
            (None, Some(step)) => step.printed.push(line),
            (None, None) => panic!("output of nothing: {line}"),
        }
    }
    steps
}

/// Whether a line is as written; `…` stands for anything.
fn matches(written: &str, said: &str) -> bool {
    let mut parts = written.split('…');
    let Some(mut rest) = parts.next().and_then(|first| said.strip_prefix(first)) else { return false };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || written.ends_with('…')
}

fn shell_of(place: &Place, command: &str, port: u16) -> Command {
    let mut shell = shell(place, command);
    shell.env("WEAVER_SERVER", format!("http://127.0.0.1:{port}"));
    // Commands in a directory of the project are still about the store beside it.
    shell.env("WEAVER_STORE", place.path("weaver-data"));
    shell.env("WEAVER_SERVE_LISTEN", format!("127.0.0.1:{port}"));
    shell
}

/// What the guide leaves running.
struct Background(Child);

impl Background {
    /// Started, and through with what it says at its start.
    fn start(place: &Place, command: &str, port: u16) -> Self {
        let mut shell = shell_of(place, &format!("exec {command}"), port);
        let mut child = shell.stdin(Stdio::null()).spawn().expect("there is a shell");
        let (_, log) = command.split_once("> ").expect("what runs on writes into a file");
        let log = place.path(log.split(' ').next().unwrap_or_default());
        until("it says that it is there", || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "{command}: {said}");
            said.contains("Ctrl-C")
        });
        Self(child)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may have ended by itself.
        let _ = self.0.wait();
    }
}
