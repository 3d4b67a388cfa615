//! Synchronization of agents and tests: named pipes, which block until both ends are open.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::Harness;

/// A pipe in a project's directory.
pub(crate) struct Pipe(PathBuf);

impl Pipe {
    pub(crate) fn new(harness: &Harness, name: &str) -> Self {
        let path = harness.project().join(name);
        let made = Command::new("mkfifo").arg(&path).status().expect("there is `mkfifo` (coreutils)");
        assert!(made.success());
        Self(path)
    }

    /// Waits until a process has written into it and closed it.
    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).expect("it is a pipe of text")
    }

    /// The sandbox whose name was written into it, by [`SANDBOX`].
    pub(crate) fn read_sandbox(&self) -> Sandbox {
        Sandbox::named(&self.read())
    }

    /// Waits until a process reads it, and unblocks it.
    pub(crate) fn release(&self) {
        std::fs::write(&self.0, "go\n").expect("it is a pipe");
    }
}

/// What an agent prints to tell which sandbox it is in: numbers of processes mean nothing outside of it.
pub(crate) const SANDBOX: &str = "readlink /proc/self/ns/pid";

/// The PID namespace of an agent, and so all that it ever started, wherever that went.
#[derive(Debug)]
pub(crate) struct Sandbox(String);

impl Sandbox {
    /// By what [`SANDBOX`] printed.
    pub(crate) fn named(printed: &str) -> Self {
        Self(printed.trim().to_owned())
    }

    /// How many processes of it run: those that have ended and were not asked for their status do not.
    pub(crate) fn alive(&self) -> usize {
        let all = std::fs::read_dir("/proc").expect("there is /proc").flatten();
        all.filter(|entry| self.is_in(&entry.path()) && is_running(&entry.path())).count()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.alive() == 0
    }

    fn is_in(&self, process: &Path) -> bool {
        std::fs::read_link(process.join("ns/pid"))
            .is_ok_and(|namespace| namespace.as_os_str() == self.0.as_str())
    }
}

fn is_running(process: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(process.join("stat")) else { return false };
    text.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}
