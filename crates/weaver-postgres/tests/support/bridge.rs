//! PostgreSQL in a world whose time is virtual: before each call, the server's clock is set to the world's.

use std::sync::Arc;

use tokio::runtime::Handle;
use weaver_core::clock::Clock;
use weaver_core::time::Timestamp;
use weaver_postgres::PostgresStore;
use weaver_testkit::simulation::{Elsewhere, carry_out};

use super::Schema;

/// What is left of a world on the server.
pub(crate) struct Place {
    store: Arc<PostgresStore>,
    schema: Arc<Schema>,
}

/// A store in a schema of its own, on the world's clock.
pub(crate) fn bridge(runtime: &Handle, clock: Arc<dyn Clock>) -> (Elsewhere, Place) {
    let schema = Arc::new(Schema::new());
    // Asked here: on any other thread the world's clock shows real time.
    let (start, own) = (clock.now(), Arc::clone(&schema));
    let store = carry_out(runtime, async move {
        let waits = Arc::new(weaver_runtime::SystemClock::new());
        let store = PostgresStore::open(own.options(), waits).await.expect("the schema can be made");
        own.stop_clock(store.pool(), start).await;
        Arc::new(store)
    });
    let place = Place { store: Arc::clone(&store), schema: Arc::clone(&schema) };
    let pool = store.pool().clone();
    let tell_time = move |now: Timestamp, _| {
        let (pool, schema) = (pool.clone(), Arc::clone(&schema));
        Box::pin(async move {
            let set = format!("UPDATE weaver.test_clock SET at = '{now}' WHERE at < '{now}'");
            sqlx::query(schema.sql(&set)).execute(&pool).await.expect("the clock can be set");
        }) as _
    };
    (Elsewhere::new(store, clock, runtime.clone(), Box::new(tell_time)), place)
}

impl Place {
    /// Leaves nothing behind.
    pub(crate) fn clean_up(self, runtime: &Handle) {
        carry_out(runtime, async move { Schema::drop(&self.schema, self.store.pool()).await });
    }
}
