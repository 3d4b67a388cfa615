//! A change can neither break the configuration for the changes after it nor weaken the checks of its own.

use weaver_merge::config::CONFIG_PATH;
use weaver_merge::domain::{CheckName, Reason};

use crate::harness::Harness;
use crate::proof::{config, unit};

/// Replaces the configuration of a branch by a link.
fn link_config(harness: &Harness, branch: &str, target: &str) {
    harness.repo.commit(branch, Some(harness.first.as_str()), &[("target", target)]);
    let blob = harness.repo.git(&["rev-parse", &format!("refs/heads/{branch}:target")]);
    harness.repo.git(&["update-index", "--add", "--cacheinfo", &format!("120000,{blob},{CONFIG_PATH}")]);
    let tree = harness.repo.git(&["write-tree"]);
    let words = ["commit-tree", &tree, "-m", "a link", "-p", harness.first.as_str()];
    let commit = harness.repo.git(&words);
    harness.repo.git(&["update-ref", &format!("refs/heads/{branch}"), &commit]);
}

#[tokio::test]
async fn a_change_that_breaks_the_configuration_is_ejected_and_the_next_one_lands() {
    let harness = Harness::new().await;
    let large = "#".repeat(70 * 1024);
    let broken = [
        ("syntax", "[[check]\n", "merge.toml"),
        ("empty", "# nothing\n", "defines no check"),
        ("removed", "", "does not exist"),
        ("unknown", "on_push = \"maybe\"\n", "maybe"),
        ("large", &large, "regular file"),
    ];
    let mut entries = Vec::new();
    for (branch, text, problem) in broken {
        entries.push((harness.add(branch, &[(CONFIG_PATH, text)]).await, problem));
    }
    link_config(&harness, "link", "README");
    let link = harness.engine.enqueue(&harness.queue, "link", 5).await.unwrap().entry;
    entries.push((link, "regular file"));
    let good = harness.add("good", &[("good", "1\n")]).await;
    harness.settle().await;
    for (entry, expected) in entries {
        let Reason::InvalidConfig { problem } = harness.reason(entry).await else { panic!("{expected}") };
        assert!(problem.contains(expected), "{problem}");
    }
    assert!(harness.has_landed(good).await);
    let state = harness.state().await;
    assert!(state.paused.is_none());
    assert_eq!(state.tally.runs, 1, "no check runs on a candidate that cannot land");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_change_of_the_configuration_that_is_valid_lands() {
    let harness = Harness::new().await;
    let other = config(&[("unit", &unit(&harness.repo)), ("more", "true")]);
    let a = harness.add("a", &[(CONFIG_PATH, &other)]).await;
    harness.settle().await;
    assert!(harness.has_landed(a).await);
    harness.prove(&[]).await;
}

/// A queue whose check is a script of the repository that fails if there is a file `evil`.
async fn with_script(protected: &str) -> Harness {
    let harness = Harness::with(|repo| {
        let checks = config(&[("unit", &format!("{}; sh ci/test.sh", unit(repo)))]);
        format!("{protected}\n{checks}")
    });
    let mut harness = harness.await;
    harness.accept_foreign().await;
    harness.first = harness.repo.commit("main", None, &[("ci/test.sh", "test ! -e evil\n"), ("keep", "1\n")]);
    harness
}

#[tokio::test]
async fn a_change_cannot_weaken_a_protected_script_of_its_check() {
    for protected in ["protected = [\"ci/test.sh\"]", "protected = [\"ci\"]"] {
        let harness = with_script(protected).await;
        let weak = &[("ci/test.sh", "exit 0\n"), ("evil", "1\n")];
        let evil = harness.add("evil", weak).await;
        // The directory of the script becomes a file.
        let replaced = [("ci/test.sh", ""), ("ci", "exit 0\n"), ("evil", "1\n")];
        let replaced = harness.add("replaced", &replaced).await;
        let good = harness.add("good", &[("ci/test.sh", "test ! -e evil && test -e keep\n")]).await;
        harness.settle().await;
        let failed = Reason::ChecksFailed { checks: vec![CheckName("unit".into())] };
        assert_eq!(harness.reason(evil).await, failed, "{protected}");
        assert_eq!(harness.reason(replaced).await, failed, "{protected}");
        assert!(harness.has_landed(good).await, "it is tested with the script of the base");
    }
}

#[tokio::test]
async fn a_script_that_is_not_protected_is_the_changes_own() {
    let harness = with_script("").await;
    let evil = harness.add("evil", &[("ci/test.sh", "exit 0\n"), ("evil", "1\n")]).await;
    harness.settle().await;
    assert!(harness.has_landed(evil).await);
}
