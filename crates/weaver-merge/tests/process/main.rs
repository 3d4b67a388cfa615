//! The merge queue as real processes: killed by SIGKILL at every effect, two at once, without wake-ups, and
//! with a faulty git.
//!
//! ```text
//! world.rs   a repository and a store; starts processes, and proves what must be true after them
//! child.rs   such a process: engine and worker, until idle or killed at an effect
//! ```
#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod child;
mod git;
#[path = "../engine/harness.rs"]
#[expect(dead_code, reason = "it is shared with the tests of the engine, which use all of it")]
mod harness;
#[path = "../support/hooked.rs"]
mod hooked;
mod kills;
mod pairs;
#[path = "../support/proof.rs"]
mod proof;
#[path = "../repository/repo.rs"]
#[expect(dead_code, reason = "it is shared with the tests of the forge, which use all of it")]
mod repo;
mod shared_files;
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    // The guard of a check.
    if let Some(code) = weaver_process::guard::run_if_asked() {
        return ExitCode::from(code);
    }
    let mut args = std::env::args_os().skip(1);
    let first = args.next().and_then(|word| word.into_string().ok());
    match first.as_deref() {
        Some(child::RUN) => child::run(&args.next().unwrap()),
        Some(child::MERGE) => child::merge(&args.collect::<Vec<_>>()),
        _ => {
            let trials = [kills::trials(), pairs::trials(), git::trials(), shared_files::trials()]
                .into_iter()
                .flatten();
            libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
        }
    }
}

/// A test of this binary: it has failed if it panics.
fn trial(name: &str, run: fn()) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}
