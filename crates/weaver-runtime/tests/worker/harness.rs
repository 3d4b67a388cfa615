//! Workers that reach the store directly.

use std::sync::Arc;

use weaver_runtime::LocalSource;
pub(crate) use weaver_testkit::harness::{Notes, Patience, WorkerHarness};

const PATIENCE: Patience = Patience { polls_max: 20_000, polls_to_settle: 200 };

pub(crate) fn harness() -> WorkerHarness {
    WorkerHarness::new(|store, _| Arc::new(LocalSource::new(store)), PATIENCE)
}

pub(crate) async fn settle() {
    PATIENCE.settle().await;
}

pub(crate) async fn until(what: &str, is_true: impl FnMut() -> bool) {
    PATIENCE.until(what, is_true).await;
}
