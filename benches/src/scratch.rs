//! A scratch directory for a benchmark.

use std::path::{Path, PathBuf};

/// A directory of this run, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory; an old one is removed.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weaver-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory for the run");
        Self(path)
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
