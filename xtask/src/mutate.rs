//! `cargo xtask mutate admission`: breaks one rule of admission after the other, in core alone, and expects
//! the same conformance test to fail on every store. Not part of the gate: each rule compiles the stores
//! anew.

use std::path::Path;
use std::process::Command;

use crate::cargo::Cargo;
use crate::project::Project;
use crate::{setup, test};

/// The one place where the rules are written.
const RULES: &str = "crates/weaver-core/src/admission.rs";

/// The stores, each with its conformance suite.
const STORES: [&str; 4] = ["weaver-core", "weaver-embedded", "weaver-postgres", "weaver-dynamodb"];

/// What nextest ends with if it ran tests and some of them failed. Another code says that nothing was proved.
const TESTS_FAILED: i32 = 100;

/// A rule, what it is changed to, and the test that must notice.
struct Mutation {
    rule: &'static str,
    written: &'static str,
    broken: &'static str,
    test: &'static str,
}

const MUTATIONS: [Mutation; 4] = [
    Mutation {
        rule: "due",
        written: "        ready_at <= now\n",
        broken: "        ready_at <= now || ready_at > now\n",
        test: "delays::a_task_is_leased_at_its_time_and_not_one_microsecond_before",
    },
    Mutation {
        rule: "pause",
        written: "        paused\n",
        broken: "        paused && !paused\n",
        test: "limits_and_pause::a_paused_queue_gives_nothing_until_it_is_resumed",
    },
    Mutation {
        rule: "limit",
        written: "        occupied >= max_running\n",
        broken: "        occupied > max_running\n",
        test: "limits_and_pause::no_more_run_than_the_limit_over_all_workers",
    },
    Mutation {
        rule: "expiry",
        written: "        unstarted && expires_at <= now\n",
        broken: "        unstarted && expires_at <= now && expires_at > now\n",
        test: "expiry::a_task_cannot_start_from_the_moment_it_expires",
    },
];

pub(crate) fn run(project: &Project, args: &[String]) -> Result<(), String> {
    if args != ["admission"] {
        return Err("what can be mutated is `admission`: cargo xtask mutate admission".into());
    }
    test::require_nextest(project)?;
    let copy = project.root().join("target/mutants/copy");
    remove(project.root(), &copy);
    let path = copy.to_string_lossy().into_owned();
    git(project.root(), &["worktree", "add", "--force", "--detach", &path, "HEAD"])?;
    let outcome = mutate_all(project, &copy);
    remove(project.root(), &copy);
    let green = outcome?;
    match green.is_empty() {
        true => Ok(()),
        false => Err(format!("a rule was broken and no test failed: {}", green.join(", "))),
    }
}

/// Which rules were broken on which stores without a test that failed.
fn mutate_all(project: &Project, copy: &Path) -> Result<Vec<String>, String> {
    let file = copy.join(RULES);
    let original = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {RULES}: {e}"))?;
    let mut green = Vec::new();
    for mutation in &MUTATIONS {
        let broken = mutated(&original, mutation)?;
        std::fs::write(&file, broken).map_err(|e| format!("cannot write {RULES}: {e}"))?;
        for store in STORES {
            let is_red = is_red(project, copy, store, mutation.test)?;
            println!("{} {store}: {}", mutation.rule, if is_red { "red, as it should be" } else { "GREEN" });
            if !is_red {
                green.push(format!("{} on {store}", mutation.rule));
            }
        }
    }
    Ok(green)
}

fn mutated(original: &str, mutation: &Mutation) -> Result<String, String> {
    match original.matches(mutation.written).count() {
        1 => Ok(original.replace(mutation.written, mutation.broken)),
        count => Err(format!(
            "the rule `{}` is written {count} times in {RULES} as `{}`; correct xtask/src/mutate.rs",
            mutation.rule,
            mutation.written.trim()
        )),
    }
}

/// Whether the test fails on a store. Dependencies are shared with the project's own builds.
fn is_red(project: &Project, copy: &Path, store: &str, test: &str) -> Result<bool, String> {
    // Each suite puts the name of its store before the test's.
    let filter = format!("test({test})");
    let run =
        ["nextest", "run", "--package", store, "--test", "conformance", "--no-tests", "fail", "-E", &filter];
    let run = Cargo::new(run)
        .env("CARGO_TARGET_DIR", project.root().join("target").to_string_lossy())
        .env("PATH", setup::path_with_tools(project.root()).to_string_lossy());
    let status = run.status(copy)?;
    match status.code() {
        Some(0) => Ok(false),
        Some(TESTS_FAILED) => Ok(true),
        _ => Err(format!("`{}` ended with {status} and proves nothing", run.shown())),
    }
}

/// Removes what this run, or one that was interrupted, left behind.
fn remove(root: &Path, copy: &Path) {
    // Nothing to remove is no mistake.
    let _ = git(root, &["worktree", "remove", "--force", &copy.to_string_lossy()]);
    let _ = std::fs::remove_dir_all(copy);
    let _ = git(root, &["worktree", "prune"]);
}

fn git(root: &Path, args: &[&str]) -> Result<(), String> {
    let output = Command::new("git").args(args).current_dir(root).output();
    let output = output.map_err(|e| format!("cannot start git: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`git {}`: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_changes_one_line_of_the_rules() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(RULES);
        let original = std::fs::read_to_string(path).expect("the rules are there");
        for mutation in &MUTATIONS {
            let broken = mutated(&original, mutation).expect("the rule is written once");
            let changed = original.lines().zip(broken.lines()).filter(|(one, other)| one != other).count();
            assert_eq!(changed, 1, "{}", mutation.rule);
        }
    }
}
