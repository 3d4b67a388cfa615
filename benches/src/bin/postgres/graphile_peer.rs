//! graphile_worker, configured as in its own benchmark: a local queue of 5,000, 500 handlers, batched
//! completions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Runtime;
use weaver_benches::per_second;

use crate::drain::Tally;
use crate::server::Server;

/// A task's payload: 100 bytes of JSON with its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bench {
    x: String,
}

#[derive(Debug, Clone)]
struct Counted(Arc<Tally>);

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(counted) = ctx.get_ext::<Counted>() {
            counted.0.add();
        }
        Ok::<(), String>(())
    }
}

/// Its database and its client.
pub struct Graphile {
    pub database: Database,
    pub utils: WorkerUtils,
}

impl Graphile {
    pub fn open(runtime: &Runtime, server: &Server) -> Self {
        runtime.block_on(async {
            let pool = PgPoolOptions::new().max_connections(50).connect(&server.url("graphile")).await;
            let database: Database = pool.expect("the server answers").into();
            let utils = WorkerUtils::new(database.clone(), "graphile_worker");
            utils.migrate().await.expect("its schema can be made");
            Self { database, utils }
        })
    }

    pub fn jobs(count: usize) -> Vec<RawJobSpec> {
        let payload = serde_json::to_value(Bench { x: "x".repeat(92) }).expect("JSON");
        let job = RawJobSpec { identifier: Bench::IDENTIFIER.to_owned(), payload, spec: JobSpec::default() };
        vec![job; count]
    }

    pub fn fill(&self, runtime: &Runtime, count: usize) {
        for _ in 0..count / 1000 {
            runtime.block_on(self.utils.add_raw_jobs(&Self::jobs(1000))).expect("it answers");
        }
    }

    fn options(&self, tally: &Arc<Tally>) -> WorkerOptions {
        WorkerOptions::default()
            .database(self.database.clone())
            .schema("graphile_worker")
            .listen_os_shutdown_signals(false)
            .add_extension(Counted(Arc::clone(tally)))
            .define_job::<Bench>()
    }

    /// A worker that waits for its next job, with the settings of its documentation's first example.
    pub fn idle(&self, runtime: &Runtime, tally: &Arc<Tally>) -> Arc<Worker> {
        Arc::new(runtime.block_on(self.options(tally).concurrency(16).init()).expect("a worker"))
    }

    /// Drains the queue, until the last job is deleted; jobs per second.
    pub fn drain(&self, runtime: &Runtime, server: &Server, count: usize) -> f64 {
        let tally = Tally::expecting(count);
        let options = self
            .options(&tally)
            .concurrency(500)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5000));
        let worker = Arc::new(runtime.block_on(options.init()).expect("a worker"));
        let begun = Instant::now();
        let running = Arc::clone(&worker);
        let running = runtime.spawn(async move { running.run().await });
        runtime.block_on(tally.all.notified());
        worker.request_shutdown();
        runtime.block_on(running).expect("it ends").expect("it ends well");
        let elapsed = begun.elapsed();
        let left = server.ask(runtime, "graphile", "SELECT count(*) FROM graphile_worker._private_jobs");
        assert_eq!(left, 0, "every job is done");
        per_second(count as u64, elapsed)
    }
}
