//! Reading branches and files.

use weaver_merge::forge::Forge;
use weaver_merge::plan::PullRequestSeen;

use crate::repo::Repo;

#[tokio::test]
async fn a_branch_is_a_change_as_long_as_it_exists() {
    let repo = Repo::new(&[("a", "1\n")]);
    let head = repo.commit("feature/x", Some("main"), &[("b", "2\n")]);
    let forge = repo.forge();
    let change = forge.change("feature/x", "main").await.unwrap().unwrap();
    assert_eq!((change.pull_request.head.clone(), change.is_open), (head, true));
    let seen = forge.changes(&["feature/x".into(), "deleted".into()], "main").await.unwrap();
    assert_eq!(seen, [PullRequestSeen::Present(change), PullRequestSeen::BranchDeleted]);
    assert_eq!(forge.change("deleted", "main").await, Ok(None));
}

#[tokio::test]
async fn a_name_that_looks_like_an_option_or_an_expression_is_only_a_name() {
    let repo = Repo::new(&[("a", "1\n")]);
    for name in ["--all", "main~1", "main^{tree}", "HEAD", "../heads/main", ""] {
        assert_eq!(repo.forge().change(name, "main").await.unwrap_or(None), None, "{name}");
    }
}

#[tokio::test]
async fn a_file_is_read_from_the_commit_that_is_named() {
    let repo = Repo::new(&[(".weaver/merge.toml", "old")]);
    let old = repo.tip("main");
    let new = repo.commit("main", None, &[(".weaver/merge.toml", "new")]);
    let forge = repo.forge();
    let read = async |commit| forge.read_file(commit, ".weaver/merge.toml", 100).await;
    assert_eq!(read(&old).await, Ok(Some(b"old".to_vec())));
    assert_eq!(read(&new).await, Ok(Some(b"new".to_vec())));
    assert_eq!(forge.read_file(&new, "missing", 100).await, Ok(None));
    assert!(forge.read_file(&new, ".weaver/merge.toml", 2).await.is_err(), "too large");
    assert_eq!(forge.read_file(&new, ".weaver", 100).await, Ok(None), "a directory");
}

#[tokio::test]
async fn contains_follows_ancestry() {
    let repo = Repo::new(&[("a", "1\n")]);
    let old = repo.tip("main");
    let new = repo.commit("main", None, &[("b", "2\n")]);
    assert_eq!(repo.forge().contains(&new, &old).await, Ok(true));
    assert_eq!(repo.forge().contains(&old, &new).await, Ok(false));
    let missing = "ab".repeat(20).parse().unwrap();
    assert_eq!(repo.forge().contains(&new, &missing).await, Ok(false), "a missing commit is not an ancestor");
    assert!(repo.forge().contains(&missing, &new).await.is_err(), "the tip is missing");
}
