//! PostgreSQL in a simulation with virtual time: before each call, the server's clock is set to the
//! simulation's.

use std::sync::Arc;

use tokio::runtime::Handle;
use weaver_core::clock::Clock;
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;
use weaver_testkit::simulation::{RuntimeBridge, block_on_handle};

use super::Schema;

/// The schema that a simulation leaves on the server.
pub(crate) struct Place {
    store: Arc<PostgresStore>,
    schema: Arc<Schema>,
}

/// A store in its own schema, on the simulation's clock.
pub(crate) fn bridge(runtime: &Handle, clock: Arc<dyn Clock>) -> (RuntimeBridge, Place) {
    let schema = Arc::new(Schema::new());
    // Read here: on any other thread the simulation's clock shows real time.
    let (start, own) = (clock.now(), Arc::clone(&schema));
    let store = block_on_handle(runtime, async move {
        let waits = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(own.options(), waits).await.expect("the schema can be made");
        own.stop_clock(store.pool(), start).await;
        Arc::new(store)
    });
    let place = Place { store: Arc::clone(&store), schema: Arc::clone(&schema) };
    let pool = store.pool().clone();
    let set_time = move |now: Timestamp, _| {
        let (pool, schema) = (pool.clone(), Arc::clone(&schema));
        Box::pin(async move {
            let set = format!("UPDATE weaver.test_clock SET at = '{now}' WHERE at < '{now}'");
            sqlx::query(schema.sql(&set)).execute(&pool).await.expect("the clock can be set");
        }) as _
    };
    (RuntimeBridge::new(store, clock, runtime.clone(), Box::new(set_time)), place)
}

impl Place {
    pub(crate) fn clean_up(self, runtime: &Handle) {
        block_on_handle(runtime, async move { Schema::drop(&self.schema, self.store.pool()).await });
    }
}
