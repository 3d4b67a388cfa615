//! A store in a directory of its own that goes when the test does, and media that are no directory.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod faulty;
pub(crate) mod look;
pub(crate) mod power;
pub(crate) mod ram;
pub(crate) mod rng;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_core::time::Timestamp;
use weaver_embedded::{EmbeddedOptions, EmbeddedStore};
use weaver_testkit::bed::TestStore;

/// A directory that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("embedded-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A fresh store on real files, with a clock that stands still until it is moved.
pub(crate) fn on_disk() -> Box<dyn TestStore> {
    let scratch = Scratch::new();
    let clock = ManualClock::default();
    let open = EmbeddedStore::open_with(
        scratch.path().join("store"),
        Arc::new(clock.clone()),
        EmbeddedOptions::default(),
        Arc::new(|_| {}),
    );
    Box::new(OnDisk { store: Arc::new(open.expect("an empty directory opens")), clock, scratch })
}

struct OnDisk {
    store: Arc<EmbeddedStore>,
    clock: ManualClock,
    // After the store: it is closed before its directory goes.
    #[allow(dead_code, reason = "kept for its drop")]
    scratch: Scratch,
}

#[async_trait]
impl TestStore for OnDisk {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
