//! A handler is cancelled within a second, with default settings (G11).

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Scratch;
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_runtime::{LocalSource, SystemClock};
use weaver_testkit::cancellation::median_cancellation_latency;

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_cancelled_within_a_second_on_the_embedded_store() {
    let scratch = Scratch::new();
    let store = EmbeddedStore::open(scratch.path(), Arc::new(SystemClock::new())).expect("it opens");
    let store = Arc::new(store);
    let cancel = async |key: TaskKey| store.cancel(&key).await.expect("it is running");
    let took = median_cancellation_latency(Arc::new(LocalSource::new(store.clone())), cancel).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
}
