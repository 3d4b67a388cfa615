//! Synchronization of agents and tests: named pipes, which block until both ends are open.

use std::fs::File;
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
pub(crate) struct Sandbox {
    name: String,
    /// While it is open, the kernel gives its number to no other namespace: those of tests that run beside this
    /// one would be counted as its own. `None` if nothing in it ran any more.
    _namespace: Option<File>,
}

impl Sandbox {
    /// By what [`SANDBOX`] printed.
    pub(crate) fn named(printed: &str) -> Self {
        let name = printed.trim().to_owned();
        let member = processes().find(|process| is_in(process, &name));
        let namespace = member.and_then(|process| File::open(process.join("ns/pid")).ok());
        Self { name, _namespace: namespace }
    }

    /// How many processes of it run: those that have ended and were not asked for their status do not.
    pub(crate) fn alive(&self) -> usize {
        processes().filter(|process| is_in(process, &self.name) && is_running(process)).count()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.alive() == 0
    }
}

fn processes() -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir("/proc").expect("there is /proc").flatten().map(|entry| entry.path())
}

fn is_in(process: &Path, name: &str) -> bool {
    std::fs::read_link(process.join("ns/pid")).is_ok_and(|namespace| namespace.as_os_str() == name)
}

fn is_running(process: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(process.join("stat")) else { return false };
    text.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}
