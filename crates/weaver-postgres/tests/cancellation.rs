//! A handler sees its cancellation within a second, with default settings, whichever node cancelled (G11).

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Schema;
use weaver_core::prelude::*;
use weaver_postgres::PostgresStore;
use weaver_runtime::{LocalSource, SystemClock};
use weaver_testkit::cancellation::median_cancellation_latency;

async fn open(schema: &Schema) -> Arc<PostgresStore> {
    let store = PostgresStore::open(schema.options(), Arc::new(SystemClock::new())).await;
    Arc::new(store.expect("it opens"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_cancelled_within_a_second_by_its_own_process_and_by_another() {
    let schema = Schema::new();
    let (working, other) = (open(&schema).await, open(&schema).await);
    for canceller in [&working, &other] {
        let cancel = async |key: TaskKey| canceller.cancel(&key).await.expect("it is running");
        let took = median_cancellation_latency(Arc::new(LocalSource::new(working.clone())), cancel).await;
        assert!(took <= Duration::from_secs(1), "{took:?}");
    }
    schema.drop(working.pool()).await;
}
