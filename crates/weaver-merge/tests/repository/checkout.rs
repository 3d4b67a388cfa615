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

#[tokio::test]
async fn restored_files_are_those_of_the_base_and_no_link_of_the_change_is_followed() {
    let files = [("ci/test.sh", "#!/bin/sh\nbase\n"), ("ci/only-base", "1\n"), ("top", "base\n")];
    let repo = Repo::new(&files);
    let base = repo.tip("main");
    let outside = repo.scratch("outside");
    std::fs::write(outside.join("test.sh"), "untouched\n").unwrap();
    let changed = [("top", ""), ("top/inner", "1\n"), ("added", "1\n"), (".gitattributes", "* eol=crlf\n")];
    let change = repo.commit("change", Some("main"), &changed);
    let out = repo.scratch("out");
    repo.forge().check_out(&change, &out).await.unwrap();
    // As if the change had it: a link where the base has a directory.
    std::fs::remove_dir_all(out.join("ci")).unwrap();
    std::os::unix::fs::symlink(&outside, out.join("ci")).unwrap();
    let paths = ["ci/test.sh", "top", "added", "missing/file"].map(str::to_owned);
    repo.forge().restore(&base, &paths, &out).await.unwrap();
    assert_eq!(std::fs::read_to_string(outside.join("test.sh")).unwrap(), "untouched\n");
    assert!(out.join("ci").symlink_metadata().unwrap().is_dir());
    assert_eq!(std::fs::read_to_string(out.join("ci/test.sh")).unwrap(), "#!/bin/sh\nbase\n");
    assert_eq!(std::fs::read_to_string(out.join("top")).unwrap(), "base\n");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(out.join("ci/test.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(!out.join("added").exists() && !out.join("missing").exists());
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing is left behind: {names:?}");
}

#[tokio::test]
async fn an_updated_checkout_has_exactly_the_files_of_the_new_commit_and_keeps_equal_ones() {
    use std::os::unix::fs::MetadataExt;
    let repo = Repo::new(&[("same", "1\n"), ("changed", "1\n"), ("gone/deep", "1\n"), ("kind", "1\n")]);
    let old = repo.tip("main");
    let new = repo.commit(
        "main",
        None,
        &[("changed", "2\n"), ("gone/deep", ""), ("kind", ""), ("kind/file", "2\n")],
    );
    let (forge, out) = (repo.forge(), repo.scratch("copy").join("files"));
    std::fs::create_dir(&out).unwrap();
    forge.update(&old, &out).await.unwrap();
    let inode = |path: &str| std::fs::metadata(out.join(path)).unwrap().ino();
    let same = inode("same");
    // Something else wrote to it.
    std::fs::write(out.join("kind"), "tampered").unwrap();
    forge.update(&new, &out).await.unwrap();
    assert_eq!(inode("same"), same);
    let read = |path: &str| std::fs::read_to_string(out.join(path)).unwrap();
    assert_eq!((read("changed"), read("kind/file")), ("2\n".to_owned(), "2\n".to_owned()));
    assert!(!out.join("gone").exists());
    // Attributes decide how files are written, also those that did not change.
    let crlf = repo.commit("main", None, &[(".gitattributes", "* text eol=crlf\n")]);
    forge.update(&crlf, &out).await.unwrap();
    assert_eq!(read("same"), "1\r\n");
    let fresh = repo.scratch("fresh");
    forge.check_out(&crlf, &fresh).await.unwrap();
    assert_eq!(std::fs::read_to_string(fresh.join("same")).unwrap(), "1\r\n", "as a checkout from nothing");
}
