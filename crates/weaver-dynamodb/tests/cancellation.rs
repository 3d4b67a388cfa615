//! A handler is cancelled within two seconds, with default settings, whichever process cancels the task, and
//! also if a client that knows only the seed does (G11).

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::seed::SeedClient;
use weaver_core::prelude::*;
use weaver_runtime::{LocalSource, SystemClock};
use weaver_testkit::cancellation::median_cancellation_latency;

const WITHIN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_cancelled_within_two_seconds_by_its_own_and_another_process() {
    let database = support::database();
    let working = Arc::new(support::open(&database, Arc::new(SystemClock::new())).await);
    let other = Arc::new(support::open(&database, Arc::new(SystemClock::new())).await);
    for canceller in [&working, &other] {
        let cancel = async |key: TaskKey| canceller.cancel(&key).await.expect("it is running");
        let took = median_cancellation_latency(Arc::new(LocalSource::new(working.clone())), cancel).await;
        assert!(took <= WITHIN, "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_cancelled_within_two_seconds_by_a_seed_clients_write() {
    let database = support::database();
    let working = Arc::new(support::open(&database, Arc::new(SystemClock::new())).await);
    let seed = SeedClient::new(&database);
    let cancel = async |key: TaskKey| {
        seed.set_status(key.namespace.as_str(), &key.id.to_string(), "CANCELLED").await;
    };
    let took = median_cancellation_latency(Arc::new(LocalSource::new(working)), cancel).await;
    assert!(took <= WITHIN, "{took:?}");
}
