//! A server on a store, a project, and runners of it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use weaver::core::clock::Clock;
use weaver::prelude::SystemClock;

use crate::support::{Place, Run};

/// Real time after which a test is stuck. Nothing waits this long when all is well.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The namespace of the tests that name one.
pub(crate) const NAMESPACE: &str = "app";

/// A server, and a directory `project` beside its store.
pub(crate) struct Harness {
    pub(crate) place: Place,
    server: Process,
    address: String,
}

impl Harness {
    /// On a store in memory: what these tests are about is no store's business.
    pub(crate) fn new() -> Self {
        Self::on("memory:")
    }

    /// On the store of this URL.
    pub(crate) fn on(store: &str) -> Self {
        Self::on_with(store, &[])
    }

    /// The same, of a server with these variables.
    pub(crate) fn on_with(store: &str, variables: &[(&str, &str)]) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path("project")).expect("a test can make directories");
        let mut command = place.command("serve --listen 127.0.0.1:0 --log warn --store");
        let mut server = Process::start(command.arg(store).envs(variables.iter().copied()));
        let line = server.line();
        let address = line.strip_prefix("Weaver listens on ").unwrap_or_else(|| panic!("no address: {line}"));
        Self { address: address.to_owned(), server, place }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.place.path("project")
    }

    /// Writes an agent: a shell script, run in the project with `-e`.
    pub(crate) fn agent(&self, script: &str) {
        self.place.write("project/agent.sh", script);
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = self.place.command(arguments);
        command.env("WEAVER_SERVER", &self.address);
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Run {
        Run::of(self.command(arguments).env("WEAVER_NAMESPACE", NAMESPACE))
    }

    /// A runner of the project with the agent of [`Harness::agent`], and these flags.
    pub(crate) fn runner(&self, flags: &str) -> Runner {
        self.runner_of(&format!("{flags} --project-root project -- sh -e agent.sh"))
    }

    /// A runner with these arguments.
    pub(crate) fn runner_of(&self, arguments: &str) -> Runner {
        let mut command = self.command(&format!("runner --log warn {arguments}"));
        // Often: a test is over sooner. Flags win over it.
        Runner::start(command.env("WEAVER_NAMESPACE", NAMESPACE).env("WEAVER_RUNNER_POLL", "100ms"))
    }

    /// Puts a prompt in; its id.
    pub(crate) fn prompt(&self, text: &str, flags: &str) -> String {
        let mut command = self.command(&format!("prompt {flags} --"));
        let run = Run::of(command.env("WEAVER_NAMESPACE", NAMESPACE).arg(text));
        run.succeeded().trim().to_owned()
    }

    pub(crate) fn task(&self, id: &str) -> Value {
        self.run(&format!("tasks show {id} --output json")).json()
    }

    /// Waits for a task's end.
    pub(crate) fn ended(&self, id: &str) -> Value {
        self.run(&format!("tasks wait {id} --output json --timeout 60s"));
        self.task(id)
    }

    /// The runners of the namespace, by name.
    pub(crate) fn runners(&self) -> Vec<Value> {
        self.run("workers list --output json").json()["items"].as_array().expect("a list").clone()
    }

    pub(crate) fn signal_server(&self, signal: &str) {
        self.server.signal(signal);
    }
}

/// A runner that has said where it works.
pub(crate) struct Runner {
    process: Process,
    /// What it said at its start.
    pub(crate) said: String,
}

impl Runner {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = Process::start(command);
        let mut said = String::new();
        while !said.contains("stop       Ctrl-C") {
            let line = process.line();
            assert!(!line.is_empty(), "the runner has ended: {said}{}", process.rest().errors);
            said += &(line + "\n");
        }
        Self { process, said }
    }

    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) fn stop(self) -> Run {
        self.signal("TERM");
        self.wait()
    }

    pub(crate) fn wait(mut self) -> Run {
        self.process.rest()
    }
}

/// A child that is killed if a test ends before it does.
struct Process {
    child: Option<Child>,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child: Some(child), lines }
    }

    /// The next line of its output; empty at its end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it prints text");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it has not ended").id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.expect("there is a `kill`").success());
    }

    fn rest(&mut self) -> Run {
        let child = self.child.take().expect("called once");
        let mut run = Run::from(child.wait_with_output().expect("it ends"));
        std::io::Read::read_to_string(&mut self.lines, &mut run.out).expect("it prints text");
        run
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // It may have ended already.
            let _ = child.wait();
        }
    }
}

/// Looks until something is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let stuck_at = clock.monotonic().saturating_add(STUCK_AFTER);
    while !is_true() {
        assert!(clock.monotonic() < stuck_at, "this should happen: {what}");
        std::thread::yield_now();
    }
}
