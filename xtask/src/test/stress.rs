//! `cargo xtask test --stress N`: the tests again and again beside busy cores, for those that need luck.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cargo::Cargo;

/// Threads that only compute: on a machine of two cores, tests get half of each.
const BUSY: usize = 2;

/// Run `tests` so often; every test that failed once is listed.
pub(super) fn run(root: &Path, tests: &Cargo, rounds: u32) -> Result<(), String> {
    let failed = beside_busy_threads(|| {
        let mut failed: BTreeMap<String, u32> = BTreeMap::new();
        for round in 1..=rounds {
            println!("Stress round {round}/{rounds} …");
            let names = one_round(root, tests)?;
            println!("Stress round {round}/{rounds} … {} failed", names.len());
            names.into_iter().for_each(|name| *failed.entry(name).or_default() += 1);
        }
        Ok::<_, String>(failed)
    })?;
    if failed.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        failed.iter().map(|(name, times)| format!("  {times} of {rounds}: {name}")).collect();
    Err(format!("tests that failed under load, {} of them:\n{}", lines.len(), lines.join("\n")))
}

/// The names of the tests that failed. A run that fails without naming one did not compile.
fn one_round(root: &Path, tests: &Cargo) -> Result<Vec<String>, String> {
    let mut child = tests.start_with_stderr(root)?;
    let mut names = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            eprintln!("{line}");
            names.extend(failure(&line));
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for `{}`: {error}", tests.shown()))?;
    // Said when it happens, and once more in the summary.
    names.sort();
    names.dedup();
    if !status.success() && names.is_empty() {
        return Err(format!(
            "`{}` ended with {status}, and no test failed; its message is above",
            tests.shown()
        ));
    }
    Ok(names)
}

/// The test of a line such as `FAIL [   0.606s] (2/2) weaver-core::model it_holds`.
fn failure(line: &str) -> Option<String> {
    const WORDS: [&str; 4] = ["FAIL", "TIMEOUT", "ABORT", "LEAK-FAIL"];
    let (word, rest) = line.trim().split_once(" [")?;
    let is_failure =
        WORDS.contains(&word) || word.strip_prefix("SIG").is_some_and(|rest| !rest.contains(' '));
    let (_, name) = rest.split_once("] ").filter(|_| is_failure)?;
    let name = name.trim();
    let name = name.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(name, |(_, name)| name);
    Some(name.trim().to_owned())
}

fn beside_busy_threads<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                let mut number = 1_u64;
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100_000 {
                        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
                    }
                }
            });
        }
        // Ended by a panic as well, or the scope would wait for them forever.
        let _end = EndOnDrop(&done);
        work()
    })
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_from_what_nextest_says() {
        let read = |line| failure(line);
        let failed = read("        FAIL [   0.606s] (2/2) xtask::setup the_gate_stops");
        assert_eq!(failed.as_deref(), Some("xtask::setup the_gate_stops"));
        assert_eq!(read("  TIMEOUT [ 180.0s] (10/73) a::b c").as_deref(), Some("a::b c"));
        assert_eq!(read("  SIGABRT [ 0.1s] (1/3) a b").as_deref(), Some("a b"));
        assert_eq!(read("  PASS [ 0.1s] (1/3) a b"), None);
        assert_eq!(read("  SLOW [> 60.0s] (---) a b"), None);
        assert_eq!(read("    a test that prints FAIL [x] y"), None);
    }

    #[test]
    fn busy_threads_end_with_the_work() {
        assert_eq!(beside_busy_threads(|| 7), 7);
    }

    #[test]
    fn a_run_that_fails_without_a_failed_test_is_an_error() {
        let message = run(Path::new("."), &Cargo::new(["no-such-verb-of-cargo"]), 3).unwrap_err();
        assert!(message.contains("no test failed"), "{message}");
    }
}
