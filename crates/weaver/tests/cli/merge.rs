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

/// A bare repository `project.git` whose check fails where there is a file `broken`, with a branch that adds
/// a file of its name for each of these.
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
        let run = Run::of(git(&mut shell(&place, command)));
        assert_eq!(run.code, Some(0), "{command}\n{}{}", run.out, run.errors);
    }
    let status = server.run(&place, "merge status --output json").json();
    let history = status["history"].as_array().expect("they have left");
    let entry = |name: &str| {
        let found = history.iter().find(|entry| entry["change"] == name);
        found.cloned().unwrap_or_default()
    };
    for name in ["one", "two", "three", "four"] {
        assert_eq!(entry(name)["status"], "landed", "{status}");
    }
    assert_eq!(entry("broken")["reason"]["reason"], "checks_failed", "{status}");
    assert_eq!(status["queue"]["stats"]["landed"], 4, "{status}");
    let log =
        Run::of(git(&mut shell(&place, "git --git-dir project.git log --first-parent --format=%s main")));
    assert_eq!(log.out.lines().count(), 6, "{}", log.out);
    assert_eq!(
        log.out.lines().nth(4),
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
    on_store("add-repo project.git --base main~0").failed(1, &["not the exact name of a branch"]);
    on_store("add-repo project.git").succeeded();
    let tip = |name: &str| in_shell(&place, &format!("git --git-dir project.git rev-parse {name}")).out;
    let (one, broken) = (tip("one"), tip("broken"));
    on_store("enqueue --head one~0").failed(6, &["`one~0` is not the exact name of a branch"]);
    on_store("enqueue --head one --sha main").failed(2, &["full commit hash"]);
    on_store(&format!("enqueue --head one --sha {}", broken.trim())).failed(6, &["is at", one.trim()]);
    let enqueued = on_store(&format!("enqueue --head one --sha {}", one.trim())).succeeded();
    assert!(enqueued.contains(one.trim()), "{enqueued}");
    on_store("enqueue --head broken").succeeded();
    let listed = on_store("status").succeeded();
    assert!(listed.contains("HEAD") && listed.contains(&one[..10]) && listed.contains("local:"), "{listed}");
    on_store("run --until-idle").succeeded();
    let status = on_store("status --output json").json();
    assert_eq!(status["history"][1]["status"], "landed", "{status}");
    assert_eq!(status["history"][0]["reason"]["details"][0], "unit", "{status}");
    let shown = on_store("show 2").succeeded();
    assert!(shown.contains("reason  unit") && shown.contains("on the base"), "{shown}");
    assert!(shown.contains(&format!("head    {broken}")) && shown.contains("by      local:"), "{shown}");
    on_store("verify 1").succeeded();
    on_store("verify 2").failed(3, &["has not landed"]);
}

#[test]
fn enqueued_changes_survive_a_killed_server() {
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
    server.run(&place, "merge wait").failed(6, &["paused with 3 waiting", "resume"]);
    server.run(&place, "merge resume").succeeded();
    server.run(&place, "merge wait").succeeded();
    let status = server.run(&place, "merge status --output json").json();
    assert_eq!(status["queue"]["stats"]["landed"], 3, "{status}");
    for entry in 1..=3 {
        server.run(&place, &format!("merge verify {entry}")).succeeded();
    }
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn waiting_for_an_entry_ends_with_the_code_of_its_outcome() {
    let place = Place::new();
    repository(&place, &["one", "broken", "two"]);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    let landed = server.run(&place, "merge enqueue --head one --wait").succeeded();
    assert!(landed.contains("Entry 1") && landed.contains("landed"), "{landed}");
    server.run(&place, "merge wait 1 --timeout 1s").succeeded();
    server
        .run(&place, "merge enqueue --head broken --wait")
        .failed(7, &["entry 2 (`broken`) did not land: checks_failed", "weaver merge enqueue --head broken"]);
    server.run(&place, "merge wait 2").failed(7, &["checks_failed"]);
    server.run(&place, "merge wait 9").failed(3, &["9"]);
    server.run(&place, "merge pause").succeeded();
    server.run(&place, "merge enqueue --head two").succeeded();
    server.run(&place, "merge wait 3").failed(6, &["paused", "weaver merge resume"]);
    server.run(&place, "merge cancel 3").succeeded();
    server.run(&place, "merge wait 3").failed(7, &["cancelled"]);
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn waiting_times_out_while_no_process_reconciles_the_queue() {
    let place = Place::new();
    repository(&place, &["one"]);
    // Nothing processes the queue of a store that no server has open.
    let on_store = |words: &str| place.run(&format!("merge {words} --store ./weaver-data"));
    on_store("add-repo project.git").succeeded();
    on_store("enqueue --head one --wait --wait-timeout 600ms")
        .failed(4, &["timed out", "weaver merge show 1"]);
    on_store("wait --timeout 100ms").failed(4, &["1 waiting", "weaver merge status"]);
}

#[test]
fn certificates_of_landings_are_listed_from_a_server_and_from_a_store() {
    let place = Place::new();
    repository(&place, &["one", "broken", "two"]);
    let on_store = |words: &str| place.run(&format!("merge {words} --store ./weaver-data"));
    on_store("add-repo project.git").succeeded();
    assert!(on_store("certificates").succeeded().contains("No landings"));
    for name in ["one", "broken", "two"] {
        on_store(&format!("enqueue --head {name}")).succeeded();
    }
    on_store("run --until-idle").succeeded();
    let stored = on_store("certificates --output json").json();
    let server = Server::start(&place, "serve");
    let served = server.run(&place, "merge certificates --output json").json();
    assert_eq!(stored, served);
    let entries: Vec<&serde_json::Value> =
        served["items"].as_array().expect("a list").iter().map(|item| &item["entry"]).collect();
    assert_eq!(entries, [3, 1], "{served}");
    let table = server.run(&place, "merge certificates").succeeded();
    let commit = served["items"][0]["commit"].as_str().expect("a hash");
    let head = served["items"][0]["head"].as_str().expect("a hash");
    assert!(table.contains("HEAD") && table.contains(&head[..12]), "{table}");
    assert!(table.contains(&commit[..12]) && table.contains("unit") && !table.contains("broken"), "{table}");
    assert_eq!(server.stop().code, Some(0));
}

/// A shell command with git and `weaver` at hand.
fn in_shell(place: &Place, script: &str) -> Run {
    Run::of(git(&mut shell(place, script)))
}

#[test]
fn a_chain_is_verified_offline_with_the_keys_it_was_signed_with_and_a_forged_one_is_not() {
    let place = Place::new();
    repository(&place, &["one", "two"]);
    let on_store = |words: &str| place.run(&format!("merge {words} --store ./weaver-data"));
    on_store("add-repo project.git").succeeded();
    for name in ["one", "two"] {
        on_store(&format!("enqueue --head {name}")).succeeded();
        on_store("run --until-idle").succeeded();
        on_store("key rotate").succeeded();
    }
    let all = on_store("verify --all").succeeded();
    assert!(all.contains("3 links, 2 landings: verified"), "{all}");
    let chain = on_store("chain").succeeded();
    std::fs::write(place.path("chain.json"), &chain).expect("it is written");
    let keys = on_store("key show").succeeded();
    assert_eq!(keys.lines().count(), 3, "{keys}");
    for (index, key) in keys.lines().enumerate() {
        std::fs::write(place.path(&format!("{index}.pub")), format!("{key}\n")).expect("it is written");
    }
    // Elsewhere: a clone, the file, the public keys.
    in_shell(&place, "git clone -q --bare project.git clone.git && rm -r weaver-data project.git")
        .succeeded();
    let verify = |chain: &str, keys: &str| {
        place.run(&format!("merge verify --chain {chain} --repository clone.git {keys}"))
    };
    let good = verify("chain.json", "--key 0.pub --key 1.pub").succeeded();
    assert!(good.contains("untested: link 0") && good.contains("landings: verified"), "{good}");
    let one = verify("chain.json", "--key 0.pub");
    assert_eq!(one.code, Some(5), "{}", one.out);
    assert!(one.out.contains("not among the trusted keys"), "{}", one.out);
    for (name, from, to) in [("renamed", "unit", "lint"), ("foreign", "landing", "foreign")] {
        let forged = place.path(&format!("{name}.json"));
        std::fs::write(&forged, chain.replace(from, to)).expect("it is written");
        let forged = verify(&format!("{name}.json"), "--key 0.pub --key 1.pub");
        assert_eq!(forged.code, Some(5), "{name}: {}", forged.out);
    }
    verify("chain.json", "").failed(2, &["--key"]);
}

#[test]
fn a_base_that_was_pushed_to_by_hand_stops_the_queue_until_the_push_is_accepted_by_name() {
    let place = Place::new();
    repository(&place, &["one", "outside"]);
    let server = Server::start(&place, "serve");
    server.run(&place, "merge add-repo project.git").succeeded();
    let push = in_shell(
        &place,
        "git -C work push -q ../project.git outside:main && git --git-dir project.git rev-parse main",
    );
    let commit = push.succeeded().trim().to_owned();
    server.run(&place, "merge enqueue --head one").succeeded();
    server.run(&place, "merge wait").failed(6, &["outside this queue", &format!("--accept {commit}")]);
    let status = server.run(&place, "merge status --output json").json();
    assert_eq!(status["queue"]["paused"]["cause"], "foreign", "{status}");
    assert_eq!(status["queue"]["on_foreign"], "pause", "{status}");
    server.run(&place, "merge resume --accept 1234").failed(2, &["is not a git object name"]);
    server.run(&place, &format!("merge resume --accept {commit}")).succeeded();
    server.run(&place, "merge wait").succeeded();
    let all = server.run(&place, "merge verify --all").succeeded();
    assert!(all.contains("untested: link 1") && all.contains(&commit), "{all}");
    assert!(all.contains("Ada <ada@example.org>"), "{all}");
    server.run(&place, "merge on-foreign accept").succeeded();
    in_shell(&place, "git clone -q project.git two && cd two && touch more && git add more && git commit -q -m more && git push -q")
        .succeeded();
    in_shell(&place, "git -C work switch -q -c late main && touch work/late && git -C work add late && git -C work commit -q -m late && git -C work push -q ../project.git late")
        .succeeded();
    server.run(&place, "merge enqueue --head late").succeeded();
    server.run(&place, "merge wait").succeeded();
    let all = server.run(&place, "merge verify --all").succeeded();
    assert!(all.contains("accepted by on_foreign = accept"), "{all}");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_missing_queue_repository_or_server_is_reported_with_the_next_step() {
    let place = Place::with_store();
    place.run("merge status --store ./weaver-data").failed(3, &["no merge queue", "add-repo"]);
    place.run("merge add-repo nowhere.git --store ./weaver-data").failed(3, &["nowhere.git"]);
    let named = "merge enqueue --head x --queue demo:main --store ./weaver-data";
    place.run(named).failed(3, &["demo:main", "add-repo"]);
    let unreachable = "merge status --server http://127.0.0.1:9";
    place.run(unreachable).failed(4, &["weaver serve"]);
}
