//! The DynamoDB store in a world whose time is virtual.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use weaver_core::clock::{Clock, Sleep};
use weaver_core::time::{Monotonic, Timestamp};
use weaver_dynamodb::{DynamoOptions, DynamoStore};
use weaver_testkit::simulation::{Elsewhere, carry_out};

use super::lagging::Lagging;
use super::proxy::{Fault, Proxy, Request};
use super::remembering::Remembering;

/// The world's time as the store sees it: it stands still during a call.
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
        // No call of the store sleeps but `wait`, which is made of looks here.
        Box::pin(std::future::pending())
    }
}

/// What the bad line does to a request: of a hundred writes it loses three answers and three requests, and
/// three are throttled.
fn fault(seed: u64, number: u64, operation: &str) -> Fault {
    if matches!(operation, "Query" | "GetItem" | "BatchGetItem") {
        return Fault::None;
    }
    // As good as dice: neighbours have nothing in common.
    let mut bits = (seed << 32 | number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match (bits ^ (bits >> 31)) % 100 {
        0..3 => Fault::AnswerLost,
        3..6 => Fault::Unheard,
        6..9 => Fault::Refused("ProvisionedThroughputExceededException"),
        _ => Fault::None,
    }
}

/// Where requests are sent from.
fn io() -> &'static Runtime {
    static IO: OnceLock<Runtime> = OnceLock::new();
    IO.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime can be had")
    })
}

/// A store in a database of its own, on the world's clock, behind indexes that lag and, if asked for, a bad
/// line whose faults are drawn from the seed.
pub(crate) fn stepped(clock: Arc<dyn Clock>, seed: u64, has_bad_line: bool) -> Elsewhere {
    let mirror = Arc::new(Mirror::default());
    *mirror.0.lock() = (clock.now(), clock.monotonic().0);
    let time: Arc<dyn Clock> = mirror.clone();
    let (store, line) = carry_out(io().handle(), async move {
        let database = super::database();
        let db = super::connect(&database).await;
        let (db, line) = if has_bad_line {
            let sent = AtomicU64::new(0);
            let plan = move |request: &Request<'_>| {
                fault(seed, sent.fetch_add(1, Ordering::Relaxed), request.operation)
            };
            let line = Proxy::before(&database, plan).await;
            (line.connection(&database).open().expect("the proxy is local"), Some(line))
        } else {
            (db, None)
        };
        let db = Lagging::new(Remembering::new(db), Arc::clone(&time));
        (Arc::new(DynamoStore::new(Arc::new(db), time, DynamoOptions::default())), line)
    });
    let tell_time = move |now, Monotonic(monotonic)| {
        let _open_as_long_as_the_store = &line;
        *mirror.0.lock() = (now, monotonic);
        Box::pin(std::future::ready(())) as _
    };
    Elsewhere::new(store, clock, io().handle().clone(), Box::new(tell_time))
}
