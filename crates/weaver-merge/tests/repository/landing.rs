//! Moving the base.

use weaver_merge::forge::{Forge, ForgeError, Landing};

use crate::repo::{Repo, write_hook};

#[tokio::test]
async fn the_base_moves_from_where_it_was_tested_and_from_nowhere_else() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let outsider = repo.commit("main", None, &[("c", "3\n")]);
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::BaseMoved));
    assert_eq!(repo.tip("main"), outsider);
    repo.git(&["update-ref", "refs/heads/main", base.as_str()]);
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    assert_eq!(repo.tip("main"), next);
}

#[tokio::test]
async fn a_landing_that_is_repeated_is_done() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    for _ in 0..2 {
        assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    }
}

#[tokio::test]
async fn a_lock_that_somebody_left_behind_is_an_error_that_may_pass() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let lock = repo.path().join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    let refused = repo.forge().land("main", &base, &next).await;
    assert!(matches!(&refused, Err(ForgeError::Unavailable(why)) if why.contains("lock")), "{refused:?}");
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
}

#[tokio::test]
async fn no_hook_of_the_repository_runs() {
    let repo = Repo::new(&[("a", "1\n")]);
    let marker = repo.path().join("marker");
    for hook in ["reference-transaction", "update", "pre-commit", "post-checkout"] {
        write_hook(&repo, hook, &marker);
    }
    let base = repo.tip("main");
    let head = repo.git(&["rev-parse", "main"]).parse().unwrap();
    let _ = std::fs::remove_file(&marker);
    assert_eq!(repo.forge().land("main", &base, &head).await, Ok(Landing::Done));
    repo.forge().check_out(&base, &repo.scratch("out")).await.unwrap();
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_repository_that_is_gone_says_so() {
    let repo = Repo::new(&[("a", "1\n")]);
    std::fs::rename(repo.path(), repo.path().with_extension("away")).unwrap();
    assert!(matches!(repo.forge().tip("main").await, Err(ForgeError::Gone(_))));
}

#[tokio::test]
async fn a_base_that_is_checked_out_or_not_there_is_refused_before_anything_is_done() {
    let repo = Repo::new(&[("a", "1\n")]);
    repo.forge().examine("main").await.unwrap();
    let missing = repo.forge().examine("nowhere").await.unwrap_err().to_string();
    assert!(missing.contains("no branch `nowhere`"), "{missing}");
    repo.git(&["config", "core.bare", "false"]);
    let checked_out = repo.forge().examine("main").await.unwrap_err().to_string();
    assert!(checked_out.contains("bare"), "{checked_out}");
}
