//! Landing: moving the base branch.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use weaver_merge::forge::git::GitForges;
use weaver_merge::forge::{Forge, ForgeError, Landing, MergeOutcome, MergeRequest};
use weaver_runtime::SystemClock;

use crate::repo::{Repo, write_hook, write_script};

#[tokio::test]
async fn the_base_moves_only_from_the_tested_parent() {
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
async fn landing_is_idempotent() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    for _ in 0..2 {
        assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    }
}

#[tokio::test]
async fn a_stale_lock_file_is_a_transient_error() {
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
async fn server_side_hooks_run_on_a_landing_and_no_others_do() {
    let repo = Repo::new(&[("a", "1\n")]);
    let markers = repo.scratch("markers");
    let server_side = ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"];
    let others =
        ["pre-push", "pre-commit", "post-checkout", "post-merge", "pre-auto-gc", "fsmonitor-watchman"];
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    for hook in server_side.iter().chain(&others) {
        write_hook(&repo, hook, &markers.join(hook));
    }
    repo.forge().check_out(&base, &repo.scratch("out")).await.unwrap();
    repo.forge().contains(&next, &base).await.unwrap();
    assert_eq!(std::fs::read_dir(&markers).unwrap().count(), 0, "looking runs none");
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    for hook in server_side {
        assert!(markers.join(hook).exists(), "{hook}");
    }
    for hook in others {
        assert!(!markers.join(hook).exists(), "{hook}");
    }
}

#[tokio::test]
async fn a_hook_gets_the_update_and_the_repository_and_no_server_environment() {
    let repo = Repo::new(&[("a", "1\n")]);
    let said = repo.scratch("said");
    let script = format!(
        "cat > {0}/input; env | sed 's/=.*//' > {0}/env; git cat-file -t $(cut -d' ' -f2 {0}/input) > {0}/type; \
         git config core.hooksPath > {0}/setting; echo $WEAVER_REPOSITORY > {0}/where",
        said.display()
    );
    write_script(&repo, "pre-receive", &script);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    repo.git(&["config", "core.hooksPath", "/evil"]);
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    let read = |name: &str| std::fs::read_to_string(said.join(name)).unwrap().trim().to_owned();
    assert_eq!(read("input"), format!("{base} {next} refs/heads/main"));
    assert_eq!((read("type"), read("where")), ("commit".to_owned(), repo.path().display().to_string()));
    assert!(!read("setting").contains("evil"), "{}", read("setting"));
    let known = ["PATH", "PWD", "SHLVL", "_", "LC_ALL", "OLDPWD", "WEAVER_REPOSITORY"];
    let strange: Vec<String> = read("env")
        .lines()
        .filter(|name| !known.contains(name) && !name.starts_with("GIT_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(strange, Vec::<String>::new());
}

#[tokio::test]
async fn hooks_may_come_from_a_directory_of_the_servers_configuration() {
    let repo = Repo::new(&[("a", "1\n")]);
    let hooks = repo.scratch("server-hooks");
    let script = hooks.join("update");
    std::fs::write(&script, "#!/bin/sh\necho not on a Friday >&2; exit 1\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let forge = GitForges::new(Arc::new(SystemClock::new())).with_hooks(Some(hooks)).at(repo.path());
    assert_eq!(forge.land("main", &base, &next).await, Ok(Landing::Declined("not on a Friday".into())));
    assert_eq!(repo.tip("main"), base);
}

#[tokio::test]
async fn a_declining_hook_is_distinguished_from_every_other_refusal() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    for hook in ["pre-receive", "update", "reference-transaction"] {
        write_script(&repo, hook, "test \"$1\" = committed || { echo no, says the hook >&2; exit 1; }");
        let declined = repo.forge().land("main", &base, &next).await;
        assert!(
            matches!(&declined, Ok(Landing::Declined(text)) if text.contains("no, says the hook")),
            "{declined:?}"
        );
        std::fs::remove_file(repo.path().join("hooks").join(hook)).unwrap();
    }
    // A post-receive hook cannot undo the move.
    write_script(&repo, "post-receive", "exit 1");
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
}

#[tokio::test]
async fn a_hook_writable_by_other_users_is_refused_and_never_skipped() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    write_script(&repo, "update", "exit 0");
    let hooks = repo.path().join("hooks");
    let hook = hooks.join("update");
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, bad, good) in
        [(&hook, 0o775, 0o755), (&hook, 0o757, 0o755), (&hooks, 0o777, 0o755), (&repo.path(), 0o777, 0o755)]
    {
        mode(path, bad);
        let refused = repo.forge().land("main", &base, &next).await;
        let has_remedy =
            |text: &String| text.contains("writable by other users") && text.contains("merge.hooks_path");
        assert!(
            matches!(&refused, Ok(Landing::Refused(text)) if has_remedy(text)),
            "{}: {refused:?}",
            path.display()
        );
        assert!(repo.forge().examine("main").await.is_err(), "and before a queue is made");
        mode(path, good);
    }
    // What a link leads to counts, not the link.
    let elsewhere = repo.scratch("elsewhere").join("update");
    std::fs::rename(&hook, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &hook).unwrap();
    mode(&elsewhere, 0o775);
    assert!(matches!(repo.forge().land("main", &base, &next).await, Ok(Landing::Refused(_))));
    mode(&elsewhere, 0o755);
    if std::os::unix::fs::chown(&elsewhere, Some(12345), None).is_ok() {
        let refused = repo.forge().land("main", &base, &next).await;
        assert!(matches!(&refused, Ok(Landing::Refused(text)) if text.contains("user 12345")), "{refused:?}");
        std::os::unix::fs::chown(&elsewhere, Some(0), None).unwrap();
    }
    assert_eq!(repo.tip("main"), base);
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
}

#[tokio::test]
async fn landing_on_a_checked_out_base_is_refused() {
    let repo = Repo::new(&[("a", "1\n")]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let tree = repo.scratch("tree");
    std::fs::remove_dir(&tree).unwrap();
    repo.git(&["worktree", "add", "--quiet", tree.to_str().unwrap(), "main"]);
    let refused = repo.forge().land("main", &base, &next).await;
    assert!(
        matches!(&refused, Ok(Landing::Refused(text)) if text.contains(tree.to_str().unwrap())),
        "{refused:?}"
    );
    assert_eq!(repo.tip("main"), base);
}

#[tokio::test]
async fn a_landing_keeps_the_repositorys_permissions_and_reflog() {
    let repo = Repo::new(&[("a", "1\n")]);
    repo.git(&["config", "core.sharedRepository", "0660"]);
    let base = repo.tip("main");
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    assert_eq!(repo.forge().land("main", &base, &next).await, Ok(Landing::Done));
    let mode = std::fs::metadata(repo.path().join("refs/heads/main")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let log = std::fs::read_to_string(repo.path().join("logs/refs/heads/main")).unwrap();
    assert!(log.lines().last().unwrap().contains("Weaver merge queue"), "{log}");
}

#[tokio::test]
async fn a_repository_of_sha256_objects_is_merged_and_landed() {
    let repo = Repo::with_format(&[("a", "1\n")], "sha256");
    let base = repo.tip("main");
    assert_eq!(base.as_str().len(), 64);
    let next = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let request = MergeRequest { base: base.clone(), head: next, message: "Merge".into() };
    let MergeOutcome::Merged(merged) = repo.forge().merge(&request).await.unwrap() else { panic!() };
    assert_eq!(repo.forge().land("main", &base, &merged.commit).await, Ok(Landing::Done));
    assert_eq!(repo.tip("main"), merged.commit);
}

#[tokio::test]
async fn a_missing_repository_is_reported_as_not_found() {
    let repo = Repo::new(&[("a", "1\n")]);
    std::fs::rename(repo.path(), repo.path().with_extension("away")).unwrap();
    assert!(matches!(repo.forge().tip("main").await, Err(ForgeError::NotFound(_))));
}

#[tokio::test]
async fn a_base_that_is_missing_or_checked_out_is_refused_on_setup() {
    let repo = Repo::new(&[("a", "1\n")]);
    repo.forge().examine("main").await.unwrap();
    let missing = repo.forge().examine("nowhere").await.unwrap_err().to_string();
    assert!(missing.contains("no branch `nowhere`"), "{missing}");
    repo.git(&["config", "core.bare", "false"]);
    let checked_out = repo.forge().examine("main").await.unwrap_err().to_string();
    assert!(checked_out.contains("bare"), "{checked_out}");
}
