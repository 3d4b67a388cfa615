//! `weaver merge …` on real repositories.

use crate::guide::commands;
use crate::server::Server;
use crate::support::{Place, Run, shell};

/// Git knows who commits, and nothing else of this machine.
pub(crate) fn git(command: &mut std::process::Command) -> &mut std::process::Command {
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.org");
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null")
}

/// A bare repository `project.git` whose check fails where there is a file `broken`, with a branch that adds a file of its
/// name for each of these.
pub(crate) fn repository(place: &Place, branches: &[&str]) {
    let script = format!(
        "git init -q -b main work && mkdir work/.weaver && \
         printf '[[check]]\\nname = \"unit\"\\ncommand = [\"sh\", \"-c\", \"test ! -e broken\"]\\n' > work/.weaver/merge.toml && \
         git -C work add --all && git -C work commit -q -m first && git clone -q --bare work project.git && \
         for name in {}; do git -C work switch -q -c $name main && echo $name > work/$name && git -C work add $name && \
         git -C work commit -q -m $name && git -C work push -q ../project.git $name; done",
        branches.join(" ")
    );
    Run::of(git(&mut shell(place, &script))).succeeded();
}

#[test]
fn the_guide_lands_three_branches_and_turns_one_away_with_the_server_running() {
    let guide = include_str!("../../../../docs/guides/merge-queue.md");
    let commands = commands(guide);
    let [serve, commands @ ..] = &commands[..] else { panic!("the guide has no commands") };
    assert_eq!(*serve, "weaver serve");
    assert!(commands.len() > 18, "{commands:?}");
    let place = Place::new();
    let server = Server::start(&place, "serve");
    for command in commands {
        let run = Run::of(git(&mut shell(&place, command)).env("WEAVER_SERVER", &server.address));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
    }
    let status = server.run(&place, "merge status --output json").json();
    let departed = status["departed"].as_array().expect("they have left");
    let entry = |name: &str| {
        let found = departed.iter().find(|entry| entry["change"] == name);
        found.cloned().unwrap_or_default()
    };
    for name in ["one", "two", "three"] {
        assert_eq!(entry(name)["status"], "landed", "{status}");
    }
    assert_eq!(entry("broken")["reason"]["reason"], "checks_failed", "{status}");
    assert_eq!(status["queue"]["figures"]["landed"], 3, "{status}");
    let log =
        Run::of(git(&mut shell(&place, "git --git-dir project.git log --first-parent --format=%s main")));
    assert_eq!(log.out.lines().count(), 4, "{}", log.out);
    assert_eq!(
        log.out.lines().nth(2),
        Some("Merge `three` into `main`"),
        "the urgent one went first: {}",
        log.out
    );
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn without_a_server_the_same_commands_work_on_the_store() {
    let place = Place::new();
    repository(&place, &["one", "broken"]);
    let on_store = |words: &str| place.run(&format!("merge {words} --store ./weaver-data"));
    on_store("add-repo project.git").succeeded();
    for name in ["one", "broken"] {
        on_store(&format!("enqueue --head {name}")).succeeded();
    }
    on_store("run --until-idle").succeeded();
    let status = on_store("status --output json").json();
    assert_eq!(status["departed"][1]["status"], "landed", "{status}");
    assert_eq!(status["departed"][0]["reason"]["details"][0], "unit", "{status}");
    let shown = on_store("show 2").succeeded();
    assert!(shown.contains("because unit") && shown.contains("on the base"), "{shown}");
    on_store("verify 1").succeeded();
    on_store("verify 2").failed(3, &["has not landed"]);
}

#[test]
fn what_is_in_line_survives_a_server_that_is_killed() {
    let place = Place::new();
    repository(&place, &["one", "two", "three"]);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    server.run(&place, "merge pause").succeeded();
    for name in ["one", "two", "three"] {
        server.run(&place, &format!("merge enqueue --head {name}")).succeeded();
    }
    server.kill();
    let server = Server::start(&place, "serve");
    server.run(&place, "merge wait").failed(6, &["paused with 3 in line", "resume"]);
    server.run(&place, "merge resume").succeeded();
    server.run(&place, "merge wait").succeeded();
    let status = server.run(&place, "merge status --output json").json();
    assert_eq!(status["queue"]["figures"]["landed"], 3, "{status}");
    for entry in 1..=3 {
        server.run(&place, &format!("merge verify {entry}")).succeeded();
    }
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let place = Place::with_store();
    place.run("merge status --store ./weaver-data").failed(3, &["no merge queue", "add-repo"]);
    place.run("merge add-repo nowhere.git --store ./weaver-data").failed(3, &["nowhere.git"]);
    let named = "merge enqueue --head x --queue demo:main --store ./weaver-data";
    place.run(named).failed(3, &["demo:main", "add-repo"]);
    let nobody = "merge status --server http://127.0.0.1:9";
    place.run(nobody).failed(4, &["weaver serve"]);
}
