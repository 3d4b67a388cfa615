//! A cancelled handler is signalled within a second, with default settings (G11).

use std::sync::Arc;
use std::time::Duration;

use weaver_core::prelude::*;
use weaver_runtime::{LocalSource, SystemClock};
use weaver_testkit::cancellation::median_cancellation_latency;

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_handler_is_signalled_within_a_second_in_memory() {
    let store = Arc::new(InMemoryQueue::new(Arc::new(SystemClock::new())));
    let cancel = async |key: TaskKey| store.cancel(&key).await.expect("it is running");
    let took = median_cancellation_latency(Arc::new(LocalSource::new(store.clone())), cancel).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
}
