//! A cancelled handler is notified within a second over HTTP, with default settings (G11).

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weaver_client::{Client, RemoteSource};
use weaver_core::id::TaskKey;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::{AppState, router};
use weaver_testkit::cancellation::median_cancellation_latency;

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn a_cancelled_handler_is_notified_within_a_second_over_http() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let clock = Arc::new(SystemClock::new());
    let state = AppState::new(Arc::new(InMemoryQueue::new(clock.clone())), clock);
    tokio::spawn(weaver_server::serve::serve(
        listener,
        router(state.clone()),
        state,
        CancellationToken::new(),
    ));
    let client = Client::new(&url).expect("an address");
    let cancel = async |key: TaskKey| {
        client.cancel(key.namespace.as_str(), &key.id.to_string()).await.expect("it is running");
    };
    let took = median_cancellation_latency(Arc::new(RemoteSource::new(client.clone())), cancel).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
}
