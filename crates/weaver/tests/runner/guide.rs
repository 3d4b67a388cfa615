//! The guide is a transcript: its commands are run in order, as a reader types them, and print what it says.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::harness::until;
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
    let mut reader = Reader::new();
    let mut background = Vec::new();
    for Step { command, printed } in steps {
        match command.strip_suffix('&') {
            Some(command) => background.push(Background::start(&reader, command.trim_end())),
            None => {
                let run = reader.run(command);
                assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
                let said: Vec<&str> = run.out.lines().collect();
                let is = |line: &str, said: &str| matches(line, said.trim_end());
                let as_written = printed.iter().enumerate().all(|(index, line)| {
                    // Both streams of the agent are followed, and the order of their lines is not defined.
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

/// A reader at a shell: each command starts in the directory where the command before it ended.
struct Reader {
    place: Place,
    directory: PathBuf,
}

impl Reader {
    /// In an empty directory.
    fn new() -> Self {
        let place = Place::new();
        let directory = place.path("");
        Self { place, directory }
    }

    fn run(&mut self, command: &str) -> Run {
        let file = self.place.path("reader.pwd");
        let script = format!("{command}\ncode=$?\npwd > '{}'\nexit $code", file.display());
        let run = Run::of(&mut self.shell(&script));
        self.directory = PathBuf::from(self.place.read("reader.pwd").trim_end());
        run
    }

    /// No setting that a reader does not have: no server, store or token is named. Only the port differs: the
    /// default may be taken on this machine.
    fn shell(&self, script: &str) -> Command {
        let mut shell = shell(&self.place, script);
        shell.current_dir(&self.directory).env("WEAVER_SERVE_LISTEN", "127.0.0.1:0");
        shell
    }
}

/// A background process of the guide, killed when this is dropped.
struct Background(Child);

impl Background {
    /// Returns when the process has printed its banner.
    fn start(reader: &Reader, command: &str) -> Self {
        let mut shell = reader.shell(&format!("exec {command}"));
        let mut child = shell.stdin(Stdio::null()).spawn().expect("there is a shell");
        let (_, log) = command.split_once("> ").expect("a background command writes into a file");
        let log = reader.directory.join(log.split(' ').next().unwrap_or_default());
        until("its banner is printed", || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(child.try_wait().is_ok_and(|ended| ended.is_none()), "{command}: {said}");
            said.contains("Ctrl-C")
        });
        Self(child)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It may have exited already.
        let _ = self.0.wait();
    }
}
