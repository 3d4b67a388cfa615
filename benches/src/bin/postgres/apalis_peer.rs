//! apalis-postgres.

use std::sync::Arc;

use apalis::prelude::{TaskBuilder, WorkerBuilder};
use apalis_postgres::{Config, PgPool, PgTask, PostgresStorage};
use tokio::runtime::Runtime;

use crate::drain::Tally;
use crate::server::Server;
use crate::weaver::payload;

const QUEUE: &str = "bench";

/// Connection pool of its database.
pub struct Apalis(PgPool);

impl Apalis {
    pub fn open(runtime: &Runtime, server: &Server) -> Self {
        runtime.block_on(async {
            let pool = PgPool::connect(&server.url("apalis")).await.expect("the server answers");
            PostgresStorage::setup(&pool).await.expect("its schema can be made");
            Self(pool)
        })
    }

    /// Enqueues tasks with one statement, its fastest way.
    pub async fn push(&self, count: usize) {
        let task = || -> PgTask { TaskBuilder::new(payload().into_bytes()).build() };
        let tasks = (0..count).map(|_| task()).collect();
        let mut connection = self.0.acquire().await.expect("the server answers");
        apalis_postgres::queries::push_tasks(&mut *connection, QUEUE, tasks).await.expect("it answers");
    }

    /// A worker that waits for its next task by LISTEN/NOTIFY.
    pub fn idle(&self, tally: &Arc<Tally>) -> impl Future<Output = ()> + Send + use<> {
        let config = Config::default().queue(QUEUE).batch_size(10);
        let backend = PostgresStorage::new(&self.0).with_config(config).with_pubsub();
        let tally = Arc::clone(tally);
        let handler = move |_: String| {
            let tally = Arc::clone(&tally);
            async move { tally.add() }
        };
        let worker = WorkerBuilder::new("bench").backend(backend).build(handler);
        async move {
            let _ = worker.run().await; // It ends with an error when its server stops.
        }
    }
}
