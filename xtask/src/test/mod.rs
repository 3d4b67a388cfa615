//! `cargo xtask test`: everything that must hold before a change lands, cheapest first.

mod changed;
mod options;
mod stress;

use std::process::Command;

use crate::cargo::Cargo;
use crate::project::Project;
use crate::setup;
use crate::step::{self, Step};
use crate::tidy;
use changed::Scope;
pub(crate) use options::Options;

/// Read by `weaver_testkit::sample`: every case of an enumeration, or which sample of them.
const ALL: &str = "GATE_ALL";
const SEED: &str = "GATE_SEED";

/// The workspaces of this repository.
const LOCKED: [&str; 2] = ["Cargo.toml", "benches/Cargo.toml"];

pub(crate) fn run(project: &Project, options: &Options) -> Result<(), String> {
    // Before anything is compiled: what is missing is said in a second, not after minutes.
    setup::run(project)?;
    let scope = scope(project, options)?;
    if let Some(rounds) = options.stress {
        if scope.is_empty() {
            return Ok(());
        }
        return stress::run(project.root(), &tests(project, &scope, options).arg("--no-fail-fast"), rounds);
    }
    step::run_all(&steps(project, &scope, options), options.keep_going)
}

fn scope(project: &Project, options: &Options) -> Result<Scope, String> {
    let Some(base) = &options.changed else { return Ok(Scope::Workspace) };
    let files = changed::files(project.root(), base)?;
    let scope = changed::scope(&files, project.packages()?);
    let shown = match &scope {
        Scope::Workspace => "every package".to_owned(),
        Scope::Packages(names) if names.is_empty() => "no package".to_owned(),
        Scope::Packages(names) => names.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    println!("{} files differ from {base}; they can affect {shown}", files.len());
    Ok(scope)
}

/// `--all-features` is on every step that compiles: no code goes unchecked, and the steps share one build.
fn steps<'a>(project: &'a Project, scope: &Scope, options: &Options) -> Vec<Step<'a>> {
    let of = |before: &str, scope: &Scope, after: &str| {
        let after = after.split_whitespace().map(str::to_owned);
        Cargo::new(before.split(' ').map(str::to_owned).chain(scope.arguments()).chain(after))
    };
    let fmt = Cargo::new(["fmt", "--all", "--check"]);
    let clippy = of("clippy", scope, "--all-targets --all-features -- -D warnings");
    let libraries = scope.with_libraries();
    let doctests = of("test --doc", &libraries, "--all-features");
    let docs = of("doc", scope, "--all-features --no-deps").env("RUSTDOCFLAGS", "-D warnings");

    let mut steps = vec![calling("format", fmt, project)];
    steps.extend(
        LOCKED.map(|manifest| calling(format!("lock file of {manifest}"), locked(manifest), project)),
    );
    steps.extend(tidy::steps_without_build(project));
    if !scope.is_empty() {
        steps.push(calling("clippy", clippy, project));
    }
    steps.push(calling("benchmarks", benchmarks(project), project));
    if !scope.is_empty() {
        steps.push(calling("tests", tests(project, scope, options), project));
    }
    if !libraries.is_empty() {
        steps.push(calling("doctests", doctests, project));
        steps.push(calling("docs", docs, project));
    }
    // Last, because it lists the tests that the steps above have compiled, of every package.
    if *scope == Scope::Workspace {
        steps.push(tidy::seeds_step(project));
    }
    steps
}

fn calling<'a>(name: impl Into<String>, cargo: Cargo, project: &'a Project) -> Step<'a> {
    Step::talking(name, cargo.shown(), move || cargo.run(project.root()))
}

/// A workspace whose lock file lags behind its manifests is found in a second: the second one is easily
/// forgotten, and its build would fail minutes later.
fn locked(manifest: &str) -> Cargo {
    Cargo::new(["fetch", "--locked", "--manifest-path", manifest])
}

/// The benchmarks compile: nothing else of the gate builds them, and figures that cannot be repeated are
/// worth nothing. They share the target directory: what clippy has checked of the dependencies is not checked
/// again.
fn benchmarks(project: &Project) -> Cargo {
    let target = setup::target(project.root()).to_string_lossy().into_owned();
    let check = ["check", "--manifest-path", "benches/Cargo.toml", "--bins", "--locked", "--target-dir"];
    Cargo::new(check.map(str::to_owned).into_iter().chain([target]))
}

fn tests(project: &Project, scope: &Scope, options: &Options) -> Cargo {
    let run = ["nextest".to_owned(), "run".to_owned()].into_iter().chain(scope.arguments());
    let threads =
        format!("--test-threads={}", threads(std::thread::available_parallelism().map_or(1, usize::from)));
    let run = Cargo::new(run.chain(["--all-features".to_owned(), threads]));
    if options.all {
        return run.env(ALL, "1");
    }
    match commit_seed(project) {
        Some(seed) => run.env(SEED, seed.to_string()),
        // An unpacked archive: samples go by the date.
        None => run,
    }
}

/// Tests at a time: half as many again as cores. A quarter of their time is spent waiting for a process, a
/// page or a lease; with one test per core a fifth of the machine was idle.
fn threads(cores: usize) -> usize {
    cores + cores.div_ceil(2)
}

/// A number from the commit: another for each change, the same for each run of it.
fn commit_seed(project: &Project) -> Option<u64> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(project.root()).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    u64::from_str_radix(commit.get(..8)?, 16).ok()
}

/// Without this, cargo answers "no such command", which does not say what to do.
pub(crate) fn require_nextest(project: &Project) -> Result<(), String> {
    if Cargo::new(["nextest", "--version"]).succeeds(project.root()) {
        return Ok(());
    }
    Err("cargo-nextest runs the tests and is not installed; run `cargo xtask setup`".into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(scope: &Scope) -> Vec<String> {
        let project = Project::find().unwrap();
        steps(&project, scope, &Options::default()).into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn the_gate_begins_with_the_cheap_checks_and_ends_with_what_needs_compiled_tests() {
        let names = names(&Scope::Workspace);
        assert_eq!(names[0], "format");
        assert_eq!(names[1..3], ["lock file of Cargo.toml", "lock file of benches/Cargo.toml"]);
        assert!(names[3].starts_with("tidy"));
        let last = ["clippy", "benchmarks", "tests", "doctests", "docs", "tidy seeds"];
        assert_eq!(names[names.len() - last.len()..], last);
    }

    #[test]
    fn a_change_that_touches_no_package_still_has_its_form_and_the_benchmarks_checked() {
        let names = names(&Scope::Packages(BTreeSet::new()));
        assert!(names.contains(&"benchmarks".into()) && !names.contains(&"tests".into()), "{names:?}");
    }

    #[test]
    fn a_change_of_some_packages_has_their_doctests_but_not_those_of_a_package_without_a_library() {
        let last = |scope: &[&str]| {
            let scope = Scope::Packages(scope.iter().map(|name| (*name).to_owned()).collect());
            names(&scope).pop().unwrap()
        };
        assert_eq!(last(&["weaver-core", "xtask"]), "docs");
        assert_eq!(last(&["xtask"]), "tests");
    }

    #[test]
    fn more_tests_run_at_a_time_than_there_are_cores() {
        assert_eq!([1, 2, 3, 8].map(threads), [2, 3, 5, 12]);
    }

    #[test]
    fn the_tests_of_a_change_are_those_of_its_packages() {
        let project = Project::find().unwrap();
        let scope = Scope::Packages(["a".to_owned(), "b".to_owned()].into());
        let run = |options: &Options| tests(&project, &scope, options).shown();
        let all = run(&Options { all: true, ..Options::default() });
        let expected =
            "GATE_ALL=\"1\" cargo nextest run --package a --package b --all-features --test-threads=";
        assert!(all.starts_with(expected), "{all}");
        assert!(!run(&Options::default()).contains("GATE_ALL"));
    }
}
