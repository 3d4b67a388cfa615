//! libfaketime: sets the wall clock of another process. Its monotonic clocks are unchanged, as when a real
//! wall clock is set.

use std::path::{Path, PathBuf};
use std::process::Command;

const INSTALL: &str = "libfaketime is missing: install it with `apt-get install faketime`";

/// The wall clock of the processes that use it.
#[derive(Debug)]
pub struct FakeTime {
    offset: PathBuf,
    library: PathBuf,
}

impl FakeTime {
    /// A clock that shows the real time, kept in a file of this directory.
    ///
    /// # Panics
    /// If libfaketime is not installed.
    pub fn new(directory: &Path) -> Self {
        let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
        let places = [format!("/usr/lib/{multiarch}/faketime"), "/usr/lib/faketime".to_owned()];
        let libraries = places.iter().map(|place| Path::new(place).join("libfaketime.so.1"));
        let library = libraries.into_iter().find(|library| library.exists()).expect(INSTALL);
        let clock = Self { offset: directory.join("faketime"), library };
        clock.set(0);
        clock
    }

    /// Sets the clock this many seconds ahead of the real one; negative values are behind it. Takes effect at
    /// once.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn set(&self, ahead_s: i64) {
        // Atomic: a concurrent reader sees the old or the new offset.
        let new = self.offset.with_extension("new");
        std::fs::write(&new, format!("{ahead_s:+}s\n")).expect("the directory can be written");
        std::fs::rename(&new, &self.offset).expect("the directory can be written");
    }

    /// Makes a child process use this clock.
    pub fn show_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.offset)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    }
}
