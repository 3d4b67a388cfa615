//! Remote workers: they reach the store through a server.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weaver_client::{Client, RemoteSource};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::ports::Store;
use weaver_runtime::{LocalSource, WorkSource};
use weaver_server::api::AppState;
pub(crate) use weaver_testkit::harness::{Notes, Patience, WorkerHarness};

/// Many polls: every response goes through a socket.
const PATIENCE: Patience = Patience { polls_max: 2_000_000, polls_to_settle: 6_000 };

pub(crate) fn harness() -> WorkerHarness {
    WorkerHarness::new(|store, clock| Arc::new(RemoteSource::new(serve(store, clock))), PATIENCE)
}

pub(crate) async fn settle() {
    PATIENCE.settle().await;
}

pub(crate) async fn until(what: &str, is_true: impl FnMut() -> bool) {
    PATIENCE.until(what, is_true).await;
}

/// A server over a store, which does its own maintenance; and a client of it.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
fn serve(store: Arc<dyn Store>, clock: &ManualClock) -> Client {
    // A worker that is only built needs no server.
    if tokio::runtime::Handle::try_current().is_err() {
        return Client::new("http://127.0.0.1:9").expect("an address");
    }
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    tokio::spawn(maintain(LocalSource::new(Arc::clone(&store)), clock.clone()));
    let state = AppState::new(store, Arc::new(clock.clone()));
    let router = weaver_server::api::router(state.clone());
    tokio::spawn(weaver_server::serve::serve(listener, router, state, CancellationToken::new()));
    Client::new(&format!("http://{address}")).expect("an address")
}

/// What `weaver serve` does beside its API: maintenance once a second.
async fn maintain(source: LocalSource, clock: ManualClock) {
    loop {
        clock.sleep_until(clock.monotonic().saturating_add(Duration::from_secs(1))).await;
        // A failure is retried in a second.
        let _ = source.maintain(Default::default()).await;
    }
}
