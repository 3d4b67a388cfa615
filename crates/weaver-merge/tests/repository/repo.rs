//! A bare repository for one test, created with git itself and without any configuration.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weaver_merge::domain::Oid;
use weaver_merge::forge::git::{GitForge, GitForges};
use weaver_runtime::SystemClock;

/// Removed with all that is in it.
pub(crate) struct Repo {
    root: PathBuf,
    ticks: AtomicU32,
    forges: GitForges,
}

impl Repo {
    /// With a `main` that has one commit of these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::with_format(files, "sha1")
    }

    /// The same, with objects named by another hash.
    pub(crate) fn with_format(files: &[(&str, &str)], format: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("weaver-merge-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let repo =
            Self { root, ticks: AtomicU32::new(0), forges: GitForges::new(Arc::new(SystemClock::new())) };
        let format = format!("--object-format={format}");
        repo.git(&["-c", "init.defaultBranch=main", "init", "--quiet", "--bare", &format, "."]);
        // Every move of a branch is written down.
        repo.git(&["config", "core.logAllRefUpdates", "always"]);
        repo.commit("main", None, files);
        repo
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.root.join("repo.git")
    }

    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// All of them are one process: they share candidates.
    pub(crate) fn forge(&self) -> GitForge {
        self.forges.at(self.path())
    }

    /// Commits files onto a branch (or onto `from`, which makes or resets the branch). Empty contents remove
    /// a file.
    pub(crate) fn commit(&self, branch: &str, from: Option<&str>, files: &[(&str, &str)]) -> Oid {
        let name = format!("refs/heads/{branch}");
        let parent = self.try_git(&["rev-parse", "--verify", "--quiet", from.unwrap_or(&name)]);
        let index = self.root.join("index");
        let _ = std::fs::remove_file(&index);
        if let Some(parent) = &parent {
            self.git(&["read-tree", parent]);
        }
        for (path, contents) in files {
            if contents.is_empty() {
                self.git(&["--work-tree=.", "update-index", "--force-remove", path]);
                continue;
            }
            let blob = self.root.join("blob");
            std::fs::write(&blob, contents).unwrap();
            let object = self.git(&["hash-object", "-w", blob.to_str().unwrap()]);
            let mode = if contents.starts_with("#!") { "100755" } else { "100644" };
            self.git(&["update-index", "--add", "--cacheinfo", &format!("{mode},{object},{path}")]);
        }
        let tree = self.git(&["write-tree"]);
        let mut words = vec!["commit-tree", &tree, "-m", "a change"];
        words.extend(parent.iter().flat_map(|parent| ["-p", parent]));
        let commit = self.git(&words);
        self.git(&["update-ref", &name, &commit]);
        commit.parse().unwrap()
    }

    pub(crate) fn tip(&self, branch: &str) -> Oid {
        self.git(&["rev-parse", "--verify", &format!("refs/heads/{branch}")]).parse().unwrap()
    }

    pub(crate) fn git(&self, words: &[&str]) -> String {
        self.try_git(words).unwrap_or_else(|| panic!("git {words:?}"))
    }

    pub(crate) fn try_git(&self, words: &[&str]) -> Option<String> {
        self.git_as("Ada", words)
    }

    /// The same by another committer, who is in the reflog of what moves.
    pub(crate) fn git_as(&self, committer: &str, words: &[&str]) -> Option<String> {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed);
        let date = format!("{} +0000", 1_700_000_000 + tick);
        let path = self.path();
        std::fs::create_dir_all(&path).unwrap();
        let output = Command::new("git")
            .args(words)
            .current_dir(&path)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_INDEX_FILE", self.root.join("index"))
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
            .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@example.org")])
            .envs([("GIT_COMMITTER_NAME", committer), ("GIT_COMMITTER_EMAIL", "ada@example.org")])
            .envs([("GIT_AUTHOR_DATE", &date), ("GIT_COMMITTER_DATE", &date)])
            .stderr(Stdio::null())
            .output()
            .expect("git is installed: apt-get install git");
        let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        output.status.success().then_some(text)
    }
}

impl Drop for Repo {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub(crate) fn write_hook(repo: &Repo, name: &str, marker: &Path) {
    write_script(repo, name, &format!("echo ran >> {}", marker.display()));
}

/// A hook of the repository that is a shell script.
pub(crate) fn write_script(repo: &Repo, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let hook = repo.path().join("hooks").join(name);
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}
