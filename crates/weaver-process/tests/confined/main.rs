//! Confined commands, with this binary as their guard: what they can do, and what they cannot.
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "it is shared with the tests of plain processes, which use all of it")]
mod harness;

mod bench;
mod can;
mod cannot;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// Every test runs as the current user, and if that is root, as a plain user too.
const PLAIN_USER: u32 = 54321;
const AS_PLAIN_USER: &str = "as_a_plain_user::";

fn main() -> ExitCode {
    if let Some(code) = weaver_process::guard::run_if_asked() {
        return ExitCode::from(code);
    }
    let tests: Vec<Test> = [can::tests(), cannot::tests()].concat();
    let mut trials: Vec<Trial> = tests.iter().map(|(name, run)| trial((*name).to_owned(), *run)).collect();
    if bench::is_root() {
        trials.extend(tests.iter().map(|(name, _)| as_plain_user(name)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A name, and what fails by panicking.
type Test = (&'static str, fn());

fn trial(name: String, run: fn()) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

/// The same test in a copy of this binary that a plain user can reach.
fn as_plain_user(name: &'static str) -> Trial {
    Trial::test(format!("{AS_PLAIN_USER}{name}"), move || {
        let dir = harness::Dir::new();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777))?;
        let copy = dir.path().join("tests");
        std::fs::copy(std::env::current_exe()?, &copy)?;
        let mut command = Command::new(copy);
        command
            .args(["--exact", name])
            .current_dir(dir.path())
            .env("TMPDIR", dir.path())
            .uid(PLAIN_USER)
            .gid(PLAIN_USER);
        let output = command.output()?;
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned().into())
            }
        }
    })
}
