//! Merge candidates.

use weaver_merge::domain::{Merged, Oid};
use weaver_merge::forge::{Forge, MergeOutcome, MergeRequest};

use crate::repo::Repo;

async fn merge(repo: &Repo, base: &Oid, head: &Oid) -> MergeOutcome {
    let message = "Merge `feature`".to_owned();
    repo.forge().merge(&MergeRequest { base: base.clone(), head: head.clone(), message }).await.unwrap()
}

fn merged(outcome: MergeOutcome) -> Merged {
    match outcome {
        MergeOutcome::Merged(merged) => merged,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_candidate_has_the_base_and_the_head_as_its_parents_and_moves_no_ref() {
    let repo = Repo::new(&[("a", "1\n")]);
    let head = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let base = repo.commit("main", None, &[("c", "3\n")]);
    let refs = repo.git(&["for-each-ref"]);
    let Merged { tree, commit } = merged(merge(&repo, &base, &head).await);
    let seen = repo.forge().commit(&commit).await.unwrap();
    assert_eq!((seen.tree, seen.parents), (tree.clone(), vec![base, head]));
    let out = repo.scratch("out");
    repo.forge().check_out(&commit, &out).await.unwrap();
    let files = std::fs::read_dir(out).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(files.collect::<std::collections::BTreeSet<_>>(), ["a", "b", "c"].map(Into::into).into());
    assert_eq!(repo.git(&["for-each-ref"]), refs);
    for object in [&tree, &commit] {
        assert!(repo.try_git(&["cat-file", "-e", object.as_str()]).is_none(), "{object} is private");
    }
}

#[tokio::test]
async fn the_same_base_and_head_always_make_the_same_candidate() {
    let repo = Repo::new(&[("a", "1\n")]);
    let head = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let base = repo.commit("main", None, &[("c", "3\n")]);
    let first = merged(merge(&repo, &base, &head).await);
    assert_eq!(merged(merge(&repo, &base, &head).await), first);
}

#[tokio::test]
async fn a_conflict_names_the_files() {
    let repo = Repo::new(&[("a", "1\n"), ("b", "1\n")]);
    let head = repo.commit("feature", Some("main"), &[("a", "2\n")]);
    let base = repo.commit("main", None, &[("a", "3\n"), ("b", "4\n")]);
    assert_eq!(merge(&repo, &base, &head).await, MergeOutcome::Conflict(vec!["a".to_owned()]));
}

#[tokio::test]
async fn a_missing_object_is_an_error_and_never_a_conflict() {
    let repo = Repo::new(&[("a", "1\n")]);
    let (base, missing) = (repo.tip("main"), "ab".repeat(20).parse().unwrap());
    let request = MergeRequest { base, head: missing, message: "x".into() };
    assert!(repo.forge().merge(&request).await.is_err());
}

#[tokio::test]
async fn a_head_that_the_base_contains_is_already_merged() {
    let repo = Repo::new(&[("a", "1\n")]);
    let old = repo.tip("main");
    let base = repo.commit("main", None, &[("b", "2\n")]);
    assert_eq!(merge(&repo, &base, &old).await, MergeOutcome::AlreadyMerged);
    assert_eq!(merge(&repo, &base, &base).await, MergeOutcome::AlreadyMerged);
}

#[tokio::test]
async fn unrelated_histories_conflict() {
    let repo = Repo::new(&[("a", "1\n")]);
    let stranger = repo.commit("stranger", Some("refs/heads/none"), &[("b", "2\n")]);
    let outcome = merge(&repo, &repo.tip("main"), &stranger).await;
    assert!(matches!(outcome, MergeOutcome::Conflict(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_head_that_is_ahead_of_the_base_gets_a_candidate_too() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let head = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let Merged { tree, commit } = merged(merge(&repo, &base, &head).await);
    assert_eq!(repo.forge().commit(&commit).await.unwrap().parents, [base, head.clone()]);
    assert_eq!(repo.forge().commit(&head).await.unwrap().tree, tree);
}

/// What git on another machine makes of a request depends on the request only.
#[tokio::test]
async fn attributes_and_merge_settings_of_a_repository_do_not_decide_a_merge() {
    let base_of = |repo: &Repo| {
        let head = repo.commit("feature", Some("main"), &[("a", "1\nhead\n")]);
        (repo.commit("main", None, &[("a", "1\nbase\n")]), head)
    };
    let plain = Repo::new(&[("a", "1\n")]);
    let (base, head) = base_of(&plain);
    let expected = merge(&plain, &base, &head).await;
    assert_eq!(expected, MergeOutcome::Conflict(vec!["a".to_owned()]));
    let own = Repo::new(&[("a", "1\n")]);
    let info = own.path().join("info");
    std::fs::create_dir_all(&info).unwrap();
    std::fs::write(info.join("attributes"), "* merge=union\n").unwrap();
    own.git(&["config", "core.attributesFile", info.join("attributes").to_str().unwrap()]);
    own.git(&["config", "merge.default", "union"]);
    own.git(&["config", "merge.renames", "false"]);
    // Git 2.43 and 2.44 take attributes from the tree of HEAD.
    own.commit("attributes", None, &[(".gitattributes", "* merge=union\n")]);
    own.git(&["symbolic-ref", "HEAD", "refs/heads/attributes"]);
    let (base, head) = base_of(&own);
    assert!(own.try_git(&["merge-tree", "--write-tree", base.as_str(), head.as_str()]).is_some());
    assert_eq!(merge(&own, &base, &head).await, expected);
}
