//! The files of a commit.

use weaver_merge::forge::Forge;

use crate::repo::Repo;

#[tokio::test]
async fn a_checkout_has_every_file_of_the_commit_and_no_link_to_the_repository() {
    let files = [
        ("src/a", "1\n"),
        ("run", "#!/bin/sh\n"),
        (".gitattributes", "hidden export-ignore\n"),
        ("hidden", "x\n"),
    ];
    let repo = Repo::new(&files);
    let out = repo.scratch("out");
    repo.forge().check_out(&repo.tip("main"), &out).await.unwrap();
    for (path, contents) in files {
        assert_eq!(std::fs::read_to_string(out.join(path)).unwrap(), contents);
    }
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(out.join("run")).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(!out.join(".git").exists());
    assert!(!repo.path().join("worktrees").exists() && !repo.scratch("").join("out.index").exists());
}
