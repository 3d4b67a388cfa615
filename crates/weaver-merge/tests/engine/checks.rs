//! Checks that misbehave, and how they are contained.

use std::time::Duration;

use weaver_core::task::{NewTask, TaskState};
use weaver_merge::domain::{Reason, RunOutcome};

use crate::harness::Harness;
use crate::proof::{config, unit};

#[tokio::test]
async fn a_hanging_check_that_ignores_sigterm_is_killed_with_all_its_children() {
    let harness = Harness::with(|repo| {
        let pids = repo.scratch("pids").join("pids");
        let script = format!(
            "test -e slow || exit 0; trap '' TERM; sleep 1000 & echo $! >> {0}; echo $$ >> {0}; wait; sleep 1000",
            pids.display()
        );
        config(&[("unit", &unit(repo)), ("slow", &script)]) + "timeout_s = 1\n"
    })
    .await;
    let a = harness.add("a", &[("slow", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.reason(a).await.word(), "checks_failed");
    let runs = harness.entry(a).await.entry.checks[1].runs.clone();
    assert_eq!(runs[0].outcome, Some(RunOutcome::TimedOut));
    let pids = std::fs::read_to_string(harness.repo.scratch("pids").join("pids")).unwrap();
    assert!(pids.lines().count() >= 4, "two runs with a child each");
    for pid in pids.lines() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert!(status.is_empty() || status.contains("State:\tZ"), "{pid} is alive");
    }
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_that_passes_leaves_no_process_running_not_even_in_another_session() {
    let harness = Harness::with(|repo| {
        let pids = repo.scratch("pids").join("pids");
        let daemon = format!("trap \"\" TERM HUP; echo \\$\\$ >> {}; exec sleep 1000", pids.display());
        let script = format!(
            "setsid sh -c \"{daemon}\" </dev/null >/dev/null 2>&1 & until test -s {}; do :; done",
            pids.display()
        );
        config(&[("unit", &unit(repo)), ("daemon", &script)])
    })
    .await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let pids = std::fs::read_to_string(harness.repo.scratch("pids").join("pids")).unwrap();
    assert!(!pids.is_empty());
    for pid in pids.lines() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert!(status.is_empty() || status.contains("State:\tZ"), "{pid} is alive");
    }
    harness.prove(&[]).await;
}

#[tokio::test]
async fn files_written_by_a_check_are_seen_by_no_other_check_and_do_not_land() {
    let harness = Harness::with(|repo| {
        let dirty =
            "test ! -e dirt && echo x > dirt && echo y > README && echo z > $HOME/z && echo z > $TMPDIR/t";
        config(&[("unit", &unit(repo)), ("one", dirty), ("two", dirty)])
    })
    .await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert!(!harness.files().contains("dirt"));
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_sees_no_secrets_no_repository_and_no_configuration_of_git() {
    let harness = Harness::with(|repo| {
        let script = format!(
            "env > {}; test ! -e .git && ! git rev-parse --git-dir",
            repo.scratch("env").join("env").display()
        );
        config(&[("unit", &unit(repo)), ("env", &script)])
    })
    .await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    let env = std::fs::read_to_string(harness.repo.scratch("env").join("env")).unwrap();
    let names: Vec<&str> =
        env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let known = [
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "CI",
        "WEAVER_CHECK",
        "WEAVER_COMMIT",
        "PWD",
        "SHLVL",
        "_",
        "WEAVER_PROCESS_MARK",
    ];
    let strange: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(!env.contains("CARGO"), "{env}");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn the_event_names_the_failed_check_with_the_tail_of_its_log() {
    let harness = Harness::new().await;
    let bad = harness.add("b", &[("bad", "1\n")]).await;
    harness.settle().await;
    let events = harness.events().await;
    let event = &events[&format!("merge-notice:{}:removed:{bad}", harness.queue)];
    assert_eq!(event["event"], "queue_entry_removed");
    assert_eq!(event["reason"], "checks_failed");
    let summary = event["results"][0]["runs"][0]["end"]["summary"].as_str().unwrap();
    assert!(summary.contains("exited with code 3") && summary.contains("it is bad"), "{summary}");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_payload_can_choose_neither_the_command_nor_the_configuration() {
    let harness = Harness::new().await;
    let marker = harness.repo.scratch("marker").join("ran");
    let evil = config(&[("unit", &format!("touch {}", marker.display()))]);
    let commit = harness.repo.commit("evil", Some("main"), &[(".weaver/merge.toml", &evil)]);
    let payload = serde_json::json!({
        "queue": harness.queue, "entry": 1, "check": "unit", "base": commit, "commit": commit, "on": "candidate",
    });
    let task = NewTask::new("weaver.check").json(&payload).unwrap().queue("merge");
    harness.tasks.client().enqueue(task).await.unwrap();
    let ended = harness.tasks.drain(&harness.registry()).await;
    assert_eq!(ended[0].state, TaskState::Dead);
    assert!(ended[0].last_error.as_ref().unwrap().contains("is not on the base branch"));
    assert!(!marker.exists());
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_change_that_removes_the_program_of_a_check_fails_that_check() {
    let harness = Harness::with(|repo| {
        config(&[("unit", &unit(repo))]) + "[[check]]\nname = \"own\"\ncommand = [\"./check.sh\"]\n"
    })
    .await;
    harness.accept_foreign().await;
    let outsider = harness.repo.commit("main", None, &[("check.sh", "#!/bin/sh\nexit 0\n")]);
    harness.repo.commit("a", Some("main"), &[("check.sh", "")]);
    let a = harness.engine.enqueue(&harness.queue, "a", 5).await.unwrap().entry;
    harness.settle().await;
    assert!(matches!(harness.reason(a).await, Reason::ChecksFailed { .. }));
    harness.prove(&[outsider]).await;
}

#[tokio::test]
async fn a_check_that_no_worker_runs_times_out_and_ejects_no_entry() {
    let harness = Harness::new().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    for _ in 0..20 {
        harness.engine.reconcile_all().await.unwrap();
        harness.tasks.clock().advance(Duration::from_secs(1000));
    }
    let state = harness.state().await;
    assert!(state.paused.is_some(), "{state:?}");
    assert_eq!(state.entries[0].id, a);
    harness.prove(&[]).await;
}
