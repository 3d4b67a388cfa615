//! Wake-up latency of an idle worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weaver_benches::{ROUNDS, Samples, verdict};
use weaver_core::prelude::*;
use weaver_runtime::{Ctx, LocalSource, Shutdown, TaskError};

use crate::{CONCURRENCY, new_task, store, worker};

pub const WAKEUPS: usize = 2_000;
/// Long enough for every thread to be asleep.
const PAUSE: Duration = Duration::from_micros(100);

/// Where a hand-over starts.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// A separate thread: a thread of the runtime must be woken, as by an incoming request.
    Outside,
    /// A task on the runtime, which then waits: the same thread continues with the other task, and no thread
    /// is woken.
    Inside,
}

pub fn wake_ups(runtime: &Runtime) -> bool {
    let mut ok = true;
    for (from, what) in
        [(From::Outside, "from a thread outside"), (From::Inside, "from a task on the runtime")]
    {
        let (weaver, bare) = (WeaverIdle::start(runtime), BareIdle::start(runtime));
        let mut measurements: [Samples; 4] = std::array::from_fn(|_| Samples::default());
        for round in 0..=ROUNDS {
            let (mut of_weaver, mut of_bare) = (Vec::new(), Vec::new());
            for _ in 0..WAKEUPS {
                of_weaver.push(hand_over(runtime, from, &weaver));
                of_bare.push(hand_over(runtime, from, &bare));
            }
            if round > 0 {
                let (of_weaver, of_bare) = (Samples::of(of_weaver), Samples::of(of_bare));
                let quantiles = [(&of_weaver, 0.5), (&of_weaver, 0.99), (&of_bare, 0.5), (&of_bare, 0.99)];
                for (measurement, (samples, part)) in measurements.iter_mut().zip(quantiles) {
                    measurement.push(samples.quantile(part));
                }
            }
        }
        weaver.shutdown.request();
        let [w50, w99, b50, b99] = measurements.map(|samples| samples.median());
        println!("       {what}, weaver: p50 {w50:.1} µs, p99 {w99:.1} µs");
        println!("       {what}, bare Notify: p50 {b50:.1} µs, p99 {b99:.1} µs");
        for (part, ratio) in [("p50", w50 / b50), ("p99", w99 / b99)] {
            let what = format!("{what}, {part}: weaver / bare");
            if from == From::Outside {
                ok &= verdict(&what, ratio, 3.0, false);
            } else {
                println!("       {what}: {ratio:.2} × (reported)");
            }
        }
    }
    ok
}

/// A waiter for work.
trait Idle: Clone + Send + 'static {
    /// Hands it one unit of work.
    fn wake(&self) -> impl Future<Output = ()> + Send;
    /// When it started on it.
    fn began(&self) -> &Began;
}

/// Start time of the other side, once known.
#[derive(Default)]
struct Began {
    at: parking_lot::Mutex<Option<Instant>>,
    set: Notify,
}

impl Began {
    fn now(&self) {
        *self.at.lock() = Some(Instant::now());
        self.set.notify_one();
    }

    async fn wait(&self) -> Instant {
        self.set.notified().await;
        self.at.lock().take().expect("notified after it was set")
    }
}

/// Microseconds from hand-over to start, with all threads asleep.
fn hand_over(runtime: &Runtime, from: From, idle: &impl Idle) -> f64 {
    std::thread::sleep(PAUSE);
    let hand_over = {
        let idle = idle.clone();
        async move {
            let given = Instant::now();
            idle.wake().await;
            idle.began().wait().await.duration_since(given)
        }
    };
    let took = match from {
        From::Outside => runtime.block_on(hand_over),
        From::Inside => runtime.block_on(runtime.spawn(hand_over)).expect("no panic"),
    };
    took.as_secs_f64() * 1e6
}

#[derive(Clone)]
struct WeaverIdle {
    store: Arc<InMemoryQueue>,
    began: Arc<Began>,
    shutdown: Shutdown,
}

impl WeaverIdle {
    fn start(runtime: &Runtime) -> Self {
        let (store, began, shutdown) = (store(), Arc::<Began>::default(), Shutdown::new());
        let handler = {
            let began = began.clone();
            move |(): (), _: Ctx| {
                began.now();
                std::future::ready(Ok::<(), TaskError>(()))
            }
        };
        let source = Arc::new(LocalSource::new(store.clone()));
        runtime.spawn(worker(source, handler, CONCURRENCY).build().expect("a worker").run(shutdown.clone()));
        Self { store, began, shutdown }
    }
}

impl Idle for WeaverIdle {
    async fn wake(&self) {
        self.store.enqueue(new_task()).await.expect("enqueued");
    }

    fn began(&self) -> &Began {
        &self.began
    }
}

#[derive(Clone, Default)]
struct BareIdle {
    bell: Arc<Notify>,
    began: Arc<Began>,
}

impl BareIdle {
    fn start(runtime: &Runtime) -> Self {
        let idle = Self::default();
        let Self { bell, began } = idle.clone();
        runtime.spawn(async move {
            loop {
                bell.notified().await;
                began.now();
            }
        });
        idle
    }
}

impl Idle for BareIdle {
    async fn wake(&self) {
        self.bell.notify_one();
    }

    fn began(&self) -> &Began {
        &self.began
    }
}
