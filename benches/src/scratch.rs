//! A place for what a benchmark writes.

use std::path::{Path, PathBuf};

/// A directory of this run that goes when it is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Made empty.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weaver-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory for the run");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
