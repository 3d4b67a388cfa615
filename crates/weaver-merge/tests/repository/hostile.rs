//! A hostile repository: its configuration, attributes and refs name programs that must not run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weaver_merge::domain::Oid;
use weaver_merge::forge::{Forge, MergeOutcome, MergeRequest};

use crate::repo::Repo;

/// A program that records that it ran, and copies its input.
fn trap(repo: &Repo) -> (PathBuf, PathBuf) {
    let directory = repo.scratch("trap");
    let (program, marker) = (directory.join("run"), directory.join("ran"));
    std::fs::write(&program, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", marker.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (program, marker)
}

fn set(repo: &Repo, key: &str, value: &str) {
    repo.git(&["config", key, value]);
}

/// Makes every call of the port once.
async fn use_it(repo: &Repo, head: &Oid) -> MergeOutcome {
    let (forge, base) = (repo.forge(), repo.tip("main"));
    forge.examine("main").await.unwrap();
    forge.change("feature", "main").await.unwrap().unwrap();
    forge.changes(&["feature".into()], "main").await.unwrap();
    forge.read_file(&base, "a", 100).await.unwrap();
    forge.commit(head).await.unwrap();
    let missing = "ab".repeat(20).parse().unwrap();
    forge.contains(&base, &missing).await.unwrap();
    let request = MergeRequest { base: base.clone(), head: head.clone(), message: "Merge".into() };
    let outcome = forge.merge(&request).await.unwrap();
    let _ = std::fs::remove_dir_all(repo.scratch("out"));
    forge.check_out(head, &repo.scratch("out")).await.unwrap();
    if let MergeOutcome::Merged(merged) = &outcome {
        let landed = forge.land("main", &base, &merged.commit).await;
        assert!(landed.is_ok(), "{landed:?}");
    }
    outcome
}

/// With these settings in the repository's configuration, `RUN` standing for the program: it does not run.
async fn assert_never_runs(settings: &[(&str, &str)], files: &[(&str, &str)]) {
    let repo = Repo::new(&[("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")]);
    let (program, marker) = trap(&repo);
    repo.commit("feature", Some("main"), files);
    repo.commit("main", None, &[("a", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")]);
    for (key, value) in settings {
        set(&repo, key, &value.replace("RUN", program.to_str().unwrap()));
    }
    let head = repo.tip("feature");
    let _ = std::fs::remove_file(&marker); // What git of the test itself ran does not count.
    let outcome = use_it(&repo, &head).await;
    assert!(matches!(outcome, MergeOutcome::Merged(_)), "{outcome:?}");
    assert_eq!(ran(&marker), "", "{settings:?}");
}

fn ran(marker: &Path) -> String {
    std::fs::read_to_string(marker).unwrap_or_default()
}

#[tokio::test]
async fn a_filter_named_by_gitattributes_and_the_repositorys_config_never_runs() {
    let settings = [("filter.x.smudge", "RUN smudge"), ("filter.x.clean", "RUN clean")];
    assert_never_runs(&settings, &[(".gitattributes", "* filter=x\n"), ("b", "2\n")]).await;
    let settings = [("filter.x.process", "RUN process"), ("filter.x.required", "false")];
    assert_never_runs(&settings, &[(".gitattributes", "* filter=x\n"), ("b", "2\n")]).await;
}

#[tokio::test]
async fn a_merge_driver_named_by_the_repositorys_config_never_runs() {
    let settings = [("merge.x.driver", "RUN driver %O %A %B"), ("merge.default", "x")];
    let files = [(".gitattributes", "* merge=x\n"), ("a", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")];
    assert_never_runs(&settings, &files).await;
}

#[tokio::test]
async fn a_transport_for_missing_objects_named_by_the_repositorys_config_never_runs() {
    let settings = [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", "."),
        ("remote.evil.promisor", "true"),
        ("remote.evil.uploadpack", "RUN upload-pack"),
    ];
    assert_never_runs(&settings, &[("b", "2\n")]).await;
    let ssh = [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", "ssh://127.0.0.1/x"),
        ("remote.evil.promisor", "true"),
        ("core.sshCommand", "RUN ssh"),
    ];
    assert_never_runs(&ssh, &[("b", "2\n")]).await;
}

#[tokio::test]
async fn programs_of_included_configuration_never_run() {
    let repo = Repo::new(&[("a", "1\n")]);
    let (program, marker) = trap(&repo);
    let included = repo.scratch("trap").join("included");
    std::fs::write(&included, format!("[filter \"x\"]\n\tsmudge = {} included\n", program.display()))
        .unwrap();
    set(&repo, "include.path", included.to_str().unwrap());
    let head = repo.commit("feature", Some("main"), &[(".gitattributes", "* filter=x\n"), ("b", "2\n")]);
    use_it(&repo, &head).await;
    assert_eq!(ran(&marker), "");
}

#[tokio::test]
async fn other_programs_of_the_repositorys_config_never_run() {
    let table: [&[(&str, &str)]; 6] = [
        &[("core.fsmonitor", "RUN fsmonitor"), ("core.untrackedCache", "true")],
        &[("core.alternateRefsCommand", "RUN alternate-refs"), ("core.pager", "RUN pager")],
        &[("diff.external", "RUN diff"), ("diff.x.textconv", "RUN textconv"), ("core.attributesFile", "RUN")],
        &[("alias.push", "!RUN alias"), ("alias.merge-tree", "!RUN alias"), ("core.editor", "RUN editor")],
        &[
            ("credential.helper", "!RUN credential"),
            ("core.askPass", "RUN askpass"),
            ("gpg.program", "RUN gpg"),
        ],
        &[
            ("uploadpack.packObjectsHook", "RUN pack"),
            ("gc.recentObjectsHook", "RUN gc"),
            ("receive.autogc", "true"),
        ],
    ];
    for settings in table {
        assert_never_runs(settings, &[(".gitattributes", "* diff=x\n"), ("b", "2\n")]).await;
    }
}

#[tokio::test]
async fn a_signature_is_not_shown_by_a_program_of_the_repositorys_config() {
    let repo = Repo::new(&[("a", "1\n")]);
    let (program, marker) = trap(&repo);
    set(&repo, "log.showSignature", "true");
    set(&repo, "gpg.program", program.to_str().unwrap());
    // A commit that claims to be signed.
    let plain = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let text = repo.git(&["cat-file", "commit", plain.as_str()]);
    let (head, message) = text.split_once("\n\n").unwrap();
    let signed = format!(
        "{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{message}\n"
    );
    let file = repo.scratch("trap").join("commit");
    std::fs::write(&file, signed).unwrap();
    let signed = repo.git(&["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]);
    repo.git(&["update-ref", "refs/heads/feature", &signed]);
    use_it(&repo, &signed.parse().unwrap()).await;
    assert_eq!(ran(&marker), "");
}

#[tokio::test]
async fn hooks_of_a_directory_that_the_repositorys_config_names_never_run() {
    let repo = Repo::new(&[("a", "1\n")]);
    let (program, marker) = trap(&repo);
    let hooks = repo.scratch("evil-hooks");
    for hook in ["pre-receive", "update", "post-receive", "post-update", "reference-transaction", "pre-push"]
    {
        std::fs::copy(&program, hooks.join(hook)).unwrap();
    }
    set(&repo, "core.hooksPath", hooks.to_str().unwrap());
    let head = repo.commit("feature", Some("main"), &[("b", "2\n")]);
    let _ = std::fs::remove_file(&marker);
    use_it(&repo, &head).await;
    assert_eq!(ran(&marker), "");
}
