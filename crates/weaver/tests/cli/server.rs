//! A server as people start it, for the tests that need one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{Place, Run};

/// A server in a place, on a free port; killed if a test ends before it does.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) address: String,
    /// All that it printed at its start.
    pub(crate) banner: String,
}

impl Server {
    /// Started, and answering.
    pub(crate) fn start(place: &Place, arguments: &str) -> Self {
        Self::at(place, arguments, "127.0.0.1:0")
    }

    /// The same at an address.
    pub(crate) fn at(place: &Place, arguments: &str, listen: &str) -> Self {
        Self::logged(place, arguments, listen, "warn")
    }

    /// The same, logging so much.
    pub(crate) fn logged(place: &Place, arguments: &str, listen: &str, level: &str) -> Self {
        Self::spawn(&mut place.command(&format!("{arguments} --listen {listen} --log {level}")))
    }

    /// Started by a command, and answering.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        let line = lines.next().and_then(Result::ok);
        let Some(address) = line.as_ref().and_then(|line| line.strip_prefix("Weaver listens on ")) else {
            let run = Run::from(child.wait_with_output().expect("it ends"));
            panic!("no address: {line:?} {}{}", run.out, run.errors);
        };
        let (address, mut banner) = (address.to_owned(), String::new());
        while !banner.contains("Ctrl-C") {
            banner += &lines.next().and_then(Result::ok).expect("it says how it is stopped");
        }
        Self { address, banner, child: Some(child) }
    }

    /// A command against it.
    pub(crate) fn run(&self, place: &Place, arguments: &str) -> Run {
        Run::of(place.command(arguments).env("WEAVER_SERVER", &self.address))
    }

    /// Ended without a chance to do anything about it.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().expect("it was not stopped before");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) fn stop(mut self) -> Run {
        let child = self.child.take().expect("it was not stopped before");
        terminate(&child);
        Run::from(child.wait_with_output().expect("it ends"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // It may have ended already.
            let _ = child.wait();
        }
    }
}

fn terminate(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("there is a `kill`").success());
}
