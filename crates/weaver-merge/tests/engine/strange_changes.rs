//! Changes that git stores and no machine can use, a repository that is collected, and what a pause keeps.

use weaver_core::id::TaskKey;
use weaver_core::name::Namespace;
use weaver_merge::domain::{Oid, Reason, RunOutcome, Status};

use crate::harness::Harness;
use crate::proof::{config, unit};
use crate::repo::Repo;

/// Names no object.
const MISSING: &str = "abababababababababababababababababababab";

/// Writes an object without git's checks.
fn write_object(repo: &Repo, kind: &str, contents: &[u8]) -> String {
    let file = repo.scratch("object").join("object");
    std::fs::write(&file, contents).unwrap();
    repo.git(&["hash-object", "-t", kind, "-w", "--literally", file.to_str().unwrap()])
}

/// A tree of these entries and of those of `main`.
fn tree(repo: &Repo, entries: &[(&str, &str, &str)]) -> String {
    let listed = repo.git(&["ls-tree", "--format=%(objectmode) %(path) %(objectname)", "main"]);
    let mut all: Vec<(&str, &str, &str)> = listed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].trim_start_matches('0'), words[1], words[2])
        })
        .chain(entries.iter().copied())
        .collect();
    all.sort_by_key(|(mode, name, _)| format!("{name}{}", if *mode == "40000" { "/" } else { "" }));
    let mut bytes = Vec::new();
    for (mode, name, object) in all {
        bytes.extend(format!("{mode} {name}\0").into_bytes());
        let digits = |at: usize| u8::from_str_radix(&object[at..at + 2], 16).unwrap();
        bytes.extend((0..object.len()).step_by(2).map(digits));
    }
    write_object(repo, "tree", &bytes)
}

/// Pushes a branch whose tree has these entries too.
fn push(repo: &Repo, branch: &str, entries: &[(&str, &str, &str)]) -> Oid {
    let tree = tree(repo, entries);
    let commit = repo.git(&["commit-tree", &tree, "-p", "main", "-m", "a change"]);
    repo.git(&["update-ref", &format!("refs/heads/{branch}"), &commit]);
    commit.parse().unwrap()
}

async fn enqueue(harness: &Harness, branch: &str) -> weaver_merge::domain::EntryId {
    harness.engine.enqueue(&harness.queue, branch, 5).await.unwrap().entry
}

#[tokio::test]
async fn changes_that_cannot_be_checked_out_are_ejected_with_the_reason_and_others_land() {
    let harness = Harness::new().await;
    let repo = &harness.repo;
    let blob = write_object(repo, "blob", b"x");
    let mut inner = b"100644 config\0".to_vec();
    inner.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&blob[at..at + 2], 16).unwrap()));
    let inner = write_object(repo, "tree", &inner);
    let long = "n".repeat(300);
    let table: [(&str, (&str, &str, &str), &str); 4] = [
        ("git-directory", ("40000", ".git", &inner), "invalid path '.git/config'"),
        ("long-name", ("100644", &long, &blob), "File name too long"),
        ("missing-blob", ("100644", "gone", MISSING), MISSING),
        ("missing-tree", ("40000", "gone", MISSING), MISSING),
    ];
    let mut strange = Vec::new();
    for (branch, entry, said) in table {
        push(repo, branch, &[entry]);
        strange.push((branch, enqueue(&harness, branch).await, said));
    }
    let good = harness.add("good", &[("good", "1\n")]).await;
    harness.settle().await;
    assert_eq!(harness.state().await.paused, None);
    for (branch, id, said) in strange {
        let reason = harness.reason(id).await;
        assert!(
            matches!(&reason, Reason::Unusable { problem } if problem.contains(said)),
            "{branch}: {reason:?}"
        );
    }
    assert!(harness.has_landed(good).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_change_that_loses_objects_while_it_waits_is_ejected_and_the_next_one_lands() {
    let harness = Harness::new().await;
    let waits = harness.add("waits", &[("directory/file", "1\n")]).await;
    let good = harness.add("good", &[("good", "1\n")]).await;
    let tree = harness.repo.git(&["rev-parse", "waits^{tree}"]);
    let (directory, file) = tree.split_at(2);
    std::fs::remove_file(harness.repo.path().join("objects").join(directory).join(file)).unwrap();
    harness.settle().await;
    let reason = harness.reason(waits).await;
    assert!(matches!(&reason, Reason::Unusable { problem } if problem.contains(&tree)), "{reason:?}");
    assert!(harness.has_landed(good).await);
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_base_that_cannot_be_checked_out_pauses_the_queue_and_ejects_no_entry() {
    let harness = Harness::new().await;
    harness.accept_foreign().await;
    let broken = push(
        &harness.repo,
        "main",
        &[("100644", &"n".repeat(300), &write_object(&harness.repo, "blob", b"x"))],
    );
    harness.repo.commit("a", Some("main"), &[("a", "1\n")]);
    let a = enqueue(&harness, "a").await;
    harness.settle().await;
    let state = harness.state().await;
    assert!(state.paused.as_ref().unwrap().reason.contains("`main` itself fails unit"), "{state:?}");
    assert_eq!(state.entries[0].id, a);
    harness.prove(&[broken]).await;
}

#[tokio::test]
async fn a_pause_keeps_the_candidate_and_all_runs_with_their_tasks() {
    let harness = Harness::new().await;
    harness.accept_foreign().await;
    let broken = harness.repo.commit("main", None, &[("bad", "1\n")]);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle().await;
    let entry = harness.entry(a).await.entry;
    assert_eq!(entry.status, Status::Updating);
    assert!(entry.merged().is_some());
    let runs = &entry.checks[0].runs;
    assert_eq!(runs.len(), 3, "two on the candidate, one on the base");
    for run in runs {
        assert!(matches!(run.outcome, Some(RunOutcome::Failed { .. })), "{run:?}");
        let key = TaskKey::new(Namespace::default(), run.task.unwrap());
        assert!(harness.tasks.store().get_tasks(&[key]).await.unwrap()[0].is_some());
    }
    let fixed = harness.repo.commit("main", None, &[("bad", "")]);
    harness.engine.resume(&harness.queue).await.unwrap();
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    assert_eq!(harness.entry(a).await.entry.candidate.unwrap().number, 2);
    harness.prove(&[broken, fixed]).await;
}

#[tokio::test]
async fn gc_before_and_during_a_check_costs_no_run() {
    let harness = Harness::with(|repo| {
        // The reflog is evidence of the test's own.
        repo.git(&["config", "gc.reflogExpire", "never"]);
        let collect = format!("git --git-dir {} gc --quiet --prune=now", repo.path().display());
        config(&[("unit", &unit(repo)), ("collect", &collect)])
    })
    .await;
    let other = harness.add("other", &[("other", "1\n")]).await;
    harness.settle().await;
    let a = harness.add("a", &[("a", "1\n")]).await;
    // The tree of the candidate is in the repository, and no ref points to it: git does not write it twice.
    harness.repo.git(&["merge-tree", "--write-tree", "main", "a"]);
    harness.engine.reconcile_all().await.unwrap();
    assert_eq!(harness.state().await.entries[0].status, Status::Checking);
    harness.repo.git(&["gc", "--quiet", "--prune=now"]);
    harness.settle().await;
    assert!(harness.has_landed(other).await && harness.has_landed(a).await, "{:?}", harness.state().await);
    assert_eq!(harness.state().await.tally.runs, 4, "two checks of two changes");
    harness.prove(&[]).await;
}
