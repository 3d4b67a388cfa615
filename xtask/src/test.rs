//! `cargo xtask test`: everything that must hold before a change lands, cheapest first.

use crate::cargo::Cargo;
use crate::project::Project;
use crate::setup;
use crate::step::{self, Step};
use crate::tidy;

pub(crate) fn run(project: &Project, keep_going: bool) -> Result<(), String> {
    // Before anything is compiled: what is missing is said in a second, not after minutes.
    setup::run(project)?;
    step::run_all(&steps(project), keep_going)
}

/// `--all-features` is on every step that compiles: no code goes unchecked, and the steps share one build.
fn steps(project: &Project) -> Vec<Step<'_>> {
    let fmt = Cargo::new(["fmt", "--all", "--check"]);
    let clippy = Cargo::new("clippy --workspace --all-targets --all-features -- -D warnings".split(' '));
    let doctests = Cargo::new("test --doc --workspace --all-features".split(' '));
    let docs =
        Cargo::new("doc --workspace --all-features --no-deps".split(' ')).env("RUSTDOCFLAGS", "-D warnings");

    let mut steps = vec![calling("format", fmt, project)];
    steps.extend(tidy::steps_without_build(project));
    steps.push(calling("clippy", clippy, project));
    steps.push(tests(project));
    steps.push(calling("doctests", doctests, project));
    steps.push(calling("docs", docs, project));
    // Last, because it lists the tests that the steps above have compiled.
    steps.push(tidy::seeds_step(project));
    steps
}

fn calling<'a>(name: &str, cargo: Cargo, project: &'a Project) -> Step<'a> {
    Step::talking(name, cargo.shown(), move || cargo.run(project.root()))
}

fn tests(project: &Project) -> Step<'_> {
    let run = Cargo::new("nextest run --workspace --all-features".split(' '));
    Step::talking("tests", run.shown(), move || {
        require_nextest(project)?;
        run.run(project.root())
    })
}

/// Without this, cargo answers "no such command", which does not say what to do.
pub(crate) fn require_nextest(project: &Project) -> Result<(), String> {
    if Cargo::new(["nextest", "--version"]).succeeds(project.root()) {
        return Ok(());
    }
    Err("cargo-nextest runs the tests and is not installed; run `cargo install cargo-nextest --locked`"
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_begins_with_the_cheap_checks_and_ends_with_what_needs_compiled_tests() {
        let project = Project::find().unwrap();
        let names: Vec<String> = steps(&project).into_iter().map(|step| step.name).collect();
        assert_eq!(names[0], "format");
        assert!(names[1].starts_with("tidy"));
        assert_eq!(names[names.len() - 5..], ["clippy", "tests", "doctests", "docs", "tidy seeds"]);
    }
}
