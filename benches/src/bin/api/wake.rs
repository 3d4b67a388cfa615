//! Wake-up latency of an idle worker: through a server, and in process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use weaver_api as wire;
use weaver_benches::scratch::Scratch;
use weaver_benches::{ROUNDS, Samples};
use weaver_client::{Client, RemoteSource};
use weaver_core::prelude::*;
use weaver_embedded::EmbeddedStore;
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, WorkSource, Worker};

use crate::server::{QUEUE, Server};

const WAKEUPS: usize = 200;
/// Long enough for the worker to have polled again.
const PAUSE: Duration = Duration::from_millis(3);

pub fn wake_ups(runtime: &Runtime) {
    println!("idle wake-up, from enqueue call to handler start, {WAKEUPS} a round");
    let scratch = Scratch::new("api-wake");
    let server = Server::weaver(&scratch.path().join("served"));
    let store =
        EmbeddedStore::open(scratch.path().join("here"), Arc::new(SystemClock::new())).expect("a store");
    let store = Arc::new(store);
    let client = server.client();
    let mut remote = Idle::start(runtime, Arc::new(RemoteSource::new(client.clone())));
    let mut local = Idle::start(runtime, Arc::new(LocalSource::new(store.clone())));
    let mut measurements: [Samples; 4] = Default::default();
    for round in 0..=ROUNDS {
        let (mut of_remote, mut of_local) = (Vec::new(), Vec::new());
        for _ in 0..WAKEUPS {
            of_remote.push(remote.hand_over(runtime, over_http(&client)));
            of_local.push(local.hand_over(runtime, in_process(&store)));
        }
        if round > 0 {
            let (of_remote, of_local) = (Samples::of(of_remote), Samples::of(of_local));
            let quantiles = [(&of_remote, 0.5), (&of_remote, 0.99), (&of_local, 0.5), (&of_local, 0.99)];
            for (measurement, (samples, part)) in measurements.iter_mut().zip(quantiles) {
                measurement.push(samples.quantile(part));
            }
        }
    }
    for idle in [&remote, &local] {
        idle.shutdown.request();
    }
    let [r50, r99, l50, l99] = measurements.map(|samples| samples.median());
    println!("       remote worker, enqueued over HTTP: p50 {r50:.0} µs, p99 {r99:.0} µs");
    println!("       in process, the same store: p50 {l50:.0} µs, p99 {l99:.0} µs");
    println!("       remote / in process: p50 {:.2} ×, p99 {:.2} × (reported)", r50 / l50, r99 / l99);
}

async fn over_http(client: &Client) {
    let task = wire::NewTask {
        task_type: "task".to_owned(),
        queue: Some(QUEUE.to_owned()),
        ..wire::NewTask::default()
    };
    client.enqueue(task).await.expect("enqueued");
}

async fn in_process(store: &EmbeddedStore) {
    store.enqueue(NewTask::new("task").queue(QUEUE)).await.expect("enqueued");
}

/// A worker that waits for work.
struct Idle {
    began: UnboundedReceiver<Instant>,
    shutdown: Shutdown,
}

impl Idle {
    fn start(runtime: &Runtime, source: Arc<dyn WorkSource>) -> Self {
        let (sender, began) = unbounded_channel();
        let handler = move |_: Option<()>, _: Ctx| {
            let _ = sender.send(Instant::now());
            std::future::ready(Ok::<(), TaskError>(()))
        };
        let registry = Registry::new().handle("task", handler).expect("a name");
        let worker = Worker::builder(source, Arc::new(SystemClock::new())).registry(registry).queues([QUEUE]);
        let shutdown = Shutdown::new();
        runtime.spawn(worker.build().expect("a worker").run(shutdown.clone()));
        Self { began, shutdown }
    }

    /// Microseconds from calling enqueue to the handler's first line.
    fn hand_over(&mut self, runtime: &Runtime, enqueue: impl Future<Output = ()>) -> f64 {
        std::thread::sleep(PAUSE);
        let given = Instant::now();
        let began = runtime.block_on(async { tokio::join!(enqueue, self.began.recv()).1 });
        began.expect("the worker lives").duration_since(given).as_secs_f64() * 1e6
    }
}
