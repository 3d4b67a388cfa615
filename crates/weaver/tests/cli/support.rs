//! A directory of its own for each test, and the binary in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const WEAVER: &str = env!("CARGO_BIN_EXE_weaver");

/// A directory that is removed with this.
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("the target directory can be written");
        Self { path }
    }

    /// One with a store at its default place.
    pub(crate) fn with_store() -> Self {
        let place = Self::new();
        place.run("store init").succeeded();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file of the test can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("the file is there")
    }

    /// The binary with these arguments (separated by spaces), without settings from the environment of the
    /// tests.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(WEAVER);
        command.args(arguments.split_whitespace()).current_dir(&self.path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("WEAVER_") {
                command.env_remove(name);
            }
        }
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env_remove("RUNTIME_DIRECTORY");
        // Servers of this place are found from this place, and no other is.
        command.env("XDG_RUNTIME_DIR", self.path("run")).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Run {
        Run::of(&mut self.command(arguments))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Best effort: leftovers in the target directory are harmless.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A command of a page, in a place, with the binary on its way.
pub(crate) fn shell(place: &Place, command: &str) -> Command {
    let directory = Path::new(WEAVER).parent().expect("the binary is in a directory");
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    for (name, value) in place.command("").get_envs() {
        // No settings from the environment of the tests.
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(["-c", command]).current_dir(place.path("")).env("PATH", path);
    shell
}

/// How a command ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the binary starts"))
    }

    /// Asserts exit code 0; returns standard output.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.errors);
        self.out
    }

    /// It did, and printed this as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let out = self.succeeded();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error} in\n{out}"))
    }

    /// It ended with this code, and said all of this on standard error.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.errors);
        for words in said {
            assert!(self.errors.contains(words), "no `{words}` in\n{}", self.errors);
        }
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
