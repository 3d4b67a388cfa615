//! The repository under check: its root, its files and its packages, each read once.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::Cargo;
use crate::metadata::{self, Package};

/// The repository; paths are relative to its root, with `/`.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
    files: OnceCell<Vec<String>>,
    packages: OnceCell<Vec<Package>>,
}

impl Project {
    /// `cargo run` sets `CARGO_MANIFEST_DIR`; a binary started by hand works from the root. The value is read
    /// at run time: one compiled in would name another checkout when a target directory is shared.
    pub(crate) fn find() -> Result<Self, String> {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = match manifest_dir.as_deref().and_then(Path::parent) {
            Some(parent) => parent.to_owned(),
            None => std::env::current_dir().map_err(|e| format!("cannot read the current directory: {e}"))?,
        };
        if !root.join("xtask/Cargo.toml").is_file() {
            return Err("this is not the repository's root; run `cargo xtask` inside it".into());
        }
        Ok(Self { root, files: OnceCell::new(), packages: OnceCell::new() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Tracked files, and new ones that git would not ignore: a mistake shows before it is committed.
    pub(crate) fn files(&self) -> Result<&[String], String> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let mut files = match git_files(&self.root) {
            Some(files) => files,
            // An unpacked archive has no git; walking it sees the same files, as nothing is built there yet.
            None => walk(&self.root)?,
        };
        files.retain(|path| self.root.join(path).is_file());
        files.sort();
        files.dedup();
        Ok(self.files.get_or_init(|| files))
    }

    /// Path and text of every file whose path ends with `ending`. Files that are not UTF-8 are left out.
    pub(crate) fn texts(&self, ending: &str) -> Result<Vec<(String, String)>, String> {
        let mut texts = Vec::new();
        for path in self.files()?.iter().filter(|path| path.ends_with(ending)) {
            let bytes =
                std::fs::read(self.root.join(path)).map_err(|e| format!("cannot read {path}: {e}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push((path.clone(), text));
            }
        }
        Ok(texts)
    }

    /// Every package of the resolved graph, for all platforms.
    pub(crate) fn packages(&self) -> Result<&[Package], String> {
        if let Some(packages) = self.packages.get() {
            return Ok(packages);
        }
        let json = Cargo::new(["metadata", "--format-version", "1"]).output(&self.root)?;
        let packages = metadata::parse(&json)?;
        Ok(self.packages.get_or_init(|| packages))
    }
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(root.join(&directory))
            .map_err(|e| format!("cannot list `{directory}`: {e}"))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("cannot list `{directory}`: {e}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => pending.push(path),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_finds_this_file_and_no_build_output() {
        let project = Project::find().unwrap();
        // Only this crate: elsewhere other tests make and remove files while this one walks.
        let files = walk(&project.root().join("xtask")).unwrap();
        assert!(files.iter().any(|path| path == "src/project.rs"));
        assert!(!files.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
    }

    #[test]
    fn texts_are_chosen_by_the_end_of_the_path() {
        let project = Project::find().unwrap();
        let texts = project.texts("xtask/Cargo.toml").unwrap();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].1.contains("name = \"xtask\""));
    }
}
