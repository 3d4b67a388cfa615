//! `weaver merge …` on real repositories.

use crate::guide::commands;
use crate::support::{Place, Run, shell};

/// Git knows who commits, and nothing else of this machine.
fn git(command: &mut std::process::Command) -> &mut std::process::Command {
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.org");
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null")
}

#[test]
fn the_guide_lands_three_branches_and_turns_one_away() {
    let guide = include_str!("../../../../docs/guides/merge-queue.md");
    let commands = commands(guide);
    assert!(commands.len() > 15, "{commands:?}");
    let place = Place::new();
    for command in commands {
        let run = Run::of(git(&mut shell(&place, command)));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
    }
    let status = place.run("merge status --output json").json();
    let departed = status["departed"].as_array().expect("they have left");
    let how = |name: &str| {
        let found = departed.iter().find(|detail| detail["entry"]["pull_request"]["id"] == name);
        found.map(|detail| detail["departure"].clone()).unwrap_or_default()
    };
    for name in ["one", "two", "three"] {
        assert_eq!(how(name)["how"], "landed", "{status}");
    }
    assert_eq!(how("broken")["reason"], "checks_failed", "{status}");
    let log =
        Run::of(git(&mut shell(&place, "git --git-dir project.git log --first-parent --format=%s main")));
    assert_eq!(log.out.lines().count(), 4, "{}", log.out);
    assert_eq!(
        log.out.lines().nth(2),
        Some("Merge `three` into `main`"),
        "the urgent one went first: {}",
        log.out
    );
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let place = Place::with_store();
    place.run("merge status").failed(3, &["no merge queue", "add-repo"]);
    place.run("merge add-repo nowhere.git").failed(3, &["nowhere.git"]);
    place.run("merge enqueue --head x --queue demo:main").failed(3, &["demo:main", "add-repo"]);
}
