//! The DynamoDB store in a simulated world with virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};
use weaver_dynamodb::{DynamoOptions, DynamoStore};
use weaver_testkit::simulation::{RuntimeBridge, block_on_handle};

use super::caching::Caching;
use super::lagging::Lagging;
use super::proxy::{Fault, Proxy, Request};

/// The world's time as seen by the store; it does not change during a call.
#[derive(Debug, Default)]
struct Mirror(Mutex<(Timestamp, Duration)>);

impl Clock for Mirror {
    fn now(&self) -> Timestamp {
        self.0.lock().0
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.0.lock().1)
    }

    fn sleep_until(&self, _deadline: Monotonic) -> Sleep {
        // Only `wait` sleeps, and it is replaced by polling here.
        Box::pin(std::future::pending())
    }
}

/// The fault of a request: of a hundred writes three responses and three requests are lost, and three are
/// throttled.
fn fault(seed: u64, number: u64, operation: &str) -> Fault {
    if matches!(operation, "Query" | "GetItem" | "BatchGetItem") {
        return Fault::None;
    }
    // A hash, so that neighbouring numbers are uncorrelated.
    let mut bits = (seed << 32 | number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match (bits ^ (bits >> 31)) % 100 {
        0..3 => Fault::ResponseLost,
        3..6 => Fault::RequestLost,
        6..9 => Fault::Refused("ProvisionedThroughputExceededException"),
        _ => Fault::None,
    }
}

/// The runtime that sends requests.
fn io() -> &'static Runtime {
    static IO: OnceLock<Runtime> = OnceLock::new();
    IO.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime can be had")
    })
}

/// A store in its own database, on the world's clock, behind indexes that lag and optionally a proxy whose
/// faults are drawn from the seed.
pub(crate) fn stepped(clock: Arc<dyn Clock>, seed: u64, has_bad_network: bool) -> RuntimeBridge {
    let mirror = Arc::new(Mirror::default());
    *mirror.0.lock() = (clock.now(), clock.monotonic().0);
    let time: Arc<dyn Clock> = mirror.clone();
    let (store, proxy) = block_on_handle(io().handle(), async move {
        let database = super::database();
        let db = super::connect(&database).await;
        let (db, proxy) = if has_bad_network {
            let sent = AtomicU64::new(0);
            let plan = move |request: &Request<'_>| {
                fault(seed, sent.fetch_add(1, Ordering::Relaxed), request.operation)
            };
            let proxy = Proxy::before(&database, plan).await;
            (proxy.connection(&database).open().expect("the proxy is local"), Some(proxy))
        } else {
            (db, None)
        };
        let db = Lagging::new(Caching::new(db), Arc::clone(&time));
        (Arc::new(DynamoStore::new(Arc::new(db), time, DynamoOptions::default())), proxy)
    });
    let set_time = move |now, Monotonic(monotonic)| {
        let _open_as_long_as_the_store = &proxy;
        *mirror.0.lock() = (now, monotonic);
        Box::pin(std::future::ready(())) as _
    };
    RuntimeBridge::new(store, clock, io().handle().clone(), Box::new(set_time))
}
