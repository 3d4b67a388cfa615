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
    assert_eq!(repo.git(&["ls-tree", "--name-only", tree.as_str()]), "a\nb\nc");
    assert_eq!(repo.git(&["for-each-ref"]), refs);
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
