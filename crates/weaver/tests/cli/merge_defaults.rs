//! A merge queue of `weaver serve` with default settings: its checks are confined, and share their files.

use serde_json::Value;

use crate::merge::{git, repository};
use crate::server::Server;
use crate::support::{Place, Run, shell};

fn sh(place: &Place, script: &str) -> String {
    Run::of(git(&mut shell(place, script))).succeeded()
}

/// Replaces the checks on `main` of a [`repository`]: each a script of `sh`.
fn checks(place: &Place, checks: &[(&str, &str)]) {
    let tables = checks.iter().map(|(name, script)| {
        let command = serde_json::json!(["sh", "-c", script]);
        format!("[[check]]\nname = \"{name}\"\ncommand = {command}\n")
    });
    place.write("work/.weaver/merge.toml", &tables.collect::<String>());
    sh(
        place,
        "git -C work switch -q main && git -C work commit -q -a -m checks && \
         git -C work push -q ../project.git main",
    );
}

/// The entry of a change that has left the queue.
fn left(status: &Value, change: &str) -> Value {
    let history = status["history"].as_array().expect("a history");
    let found = history.iter().find(|entry| entry["change"] == change);
    found.unwrap_or_else(|| panic!("{change} has not left: {status}")).clone()
}

#[test]
fn changes_that_cannot_be_checked_out_are_ejected_with_the_reason_and_the_next_one_lands() {
    let place = Place::new();
    repository(&place, &["one"]);
    // Trees that `git mktree` makes and no file system takes, and one without a blob.
    let strange = "cd project.git && blob=$(echo x | git hash-object -w --stdin) && \
        inner=$(printf '100644 blob %s\\tconfig\\n' $blob | git mktree) && \
        long=$(printf 'n%.0s' $(seq 300)) && \
        push() { tree=$( (git ls-tree main; printf \"$2\\n\" $3) | git mktree --missing) && \
        git update-ref refs/heads/$1 $(git commit-tree $tree -p main -m $1); } && \
        push dotgit '040000 tree %s\\t.git' $inner && push long \"100644 blob %s\\t$long\" $blob && \
        push gone '100644 blob %s\\tgone' abababababababababababababababababababab";
    sh(&place, strange);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    for name in ["dotgit", "long", "gone", "one"] {
        server.run(&place, &format!("merge enqueue --head {name}")).succeeded();
    }
    server.run(&place, "merge wait --timeout 2m").succeeded();
    let status = server.run(&place, "merge status --output json").json();
    for (name, said) in [("dotgit", ".git/config"), ("long", "File name too long"), ("gone", "abababab")] {
        let reason = &left(&status, name)["reason"];
        assert_eq!(reason["reason"], "unusable", "{name}: {status}");
        assert!(reason["details"][0].as_str().is_some_and(|text| text.contains(said)), "{name}: {reason}");
    }
    assert_eq!(left(&status, "one")["status"], "landed", "{status}");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_paused_queue_shows_the_runs_their_tasks_and_their_logs() {
    let place = Place::new();
    repository(&place, &["one"]);
    checks(&place, &[("unit", "echo looking at $WEAVER_COMMIT; test ! -e broken")]);
    sh(
        &place,
        "touch work/broken && git -C work add broken && git -C work commit -q -m broken && \
         git -C work push -q ../project.git main",
    );
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    server.run(&place, "merge enqueue --head one").succeeded();
    server.run(&place, "merge wait 1").failed(6, &["`main` itself fails unit", "weaver merge resume"]);
    let shown = server.run(&place, "merge show 1 --output json").json();
    let (candidate, base) = (&shown["candidate"]["commit"], &shown["candidate"]["base"]);
    let runs = shown["checks"][0]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3, "two on the candidate, one on the base: {shown}");
    let text = server.run(&place, "merge show 1").succeeded();
    for run in runs {
        assert_eq!(run["outcome"], "failed", "{shown}");
        let task = run["task"].as_str().expect("a task");
        assert!(text.contains(&format!("(task {task})")), "{text}");
        let on = if run["on"] == "base" { base } else { candidate }.as_str().expect("a commit");
        let log = server.run(&place, &format!("tasks logs {task}")).succeeded();
        assert!(log.contains(&format!("looking at {on}")), "{log}");
    }
    assert_eq!(server.stop().code, Some(0));
}

/// Fails if a check before it wrote anything, and writes wherever it may: to its files, its directories, the
/// temporary ones of the machine, and the copy that checks share, if its overlay's path leads there.
const DIRTY: &str = r#"
places=". src $HOME $TMPDIR /tmp /var/tmp /dev/shm /run"
for at in $places; do
    if test -e $at/DIRT; then echo "found in $at"; exit 1; fi
done
test ! -e .weaver/more && test "$(tail -n 1 .weaver/merge.toml)" != dirt || exit 1
mkdir -p src; echo x > .weaver/more; echo dirt >> .weaver/merge.toml
shared=$(sed -n 's/.*[, ]lowerdir=\([^,: ]*\).*/\1/p' /proc/self/mountinfo | head -n 1)
for at in $places $shared; do
    (echo x > $at/DIRT) 2>/dev/null && echo "wrote to $at"
done
test -e ./DIRT
"#;

#[test]
fn nothing_that_a_check_writes_reaches_the_next_one() {
    let place = Place::new();
    repository(&place, &["one", "two"]);
    let name = format!("weaver-dirt-{}", std::process::id());
    let dirty = DIRTY.replace("DIRT", &name);
    checks(&place, &[("one", &dirty), ("two", &dirty)]);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    for change in ["one", "two"] {
        server.run(&place, &format!("merge enqueue --head {change} --wait")).succeeded();
    }
    let queue = server.run(&place, "merge status --output json").json();
    let stats = &queue["queue"]["stats"];
    assert_eq!((&stats["check_runs"], &stats["checks_flaky"]), (&4.into(), &0.into()), "{queue}");
    let task =
        server.run(&place, "merge show 1 --output json").json()["checks"][0]["runs"][0]["task"].clone();
    let log = server.run(&place, &format!("tasks logs {}", task.as_str().expect("a task"))).succeeded();
    assert!(log.contains("wrote to /"), "it could write somewhere: {log}");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_conflict_names_the_landed_change_when_it_is_ejected_and_when_it_is_enqueued_again() {
    let place = Place::new();
    repository(&place, &["one"]);
    let clash = "git -C work switch -q -c clash main && echo other > work/one && git -C work add one && \
                 git -C work commit -q -m clash && git -C work push -q ../project.git clash";
    sh(&place, clash);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    server.run(&place, "merge pause").succeeded();
    for name in ["one", "clash"] {
        server.run(&place, &format!("merge enqueue --head {name}")).succeeded();
    }
    server.run(&place, "merge resume").succeeded();
    server.run(&place, "merge wait").succeeded();
    let commit = sh(&place, "git --git-dir project.git rev-parse main");
    let with = format!("entry 1 (`one`), landed as {}", commit.trim());
    let shown = server.run(&place, "merge show 2").succeeded();
    assert!(shown.contains("reason  one\n") && shown.contains(&with), "{shown}");
    server.run(&place, "merge enqueue --head clash").failed(6, &["conflicts with its base in one", &with]);
    assert_eq!(server.stop().code, Some(0));
}
