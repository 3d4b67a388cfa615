//! Cancellation latency in real time, of a worker with default settings (G11).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use weaver_core::clock::Clock;
use weaver_core::id::TaskKey;
use weaver_core::name::TaskType;
use weaver_core::task::NewTask;
use weaver_core::time::Monotonic;
use weaver_runtime::{Ctx, Registry, Shutdown, StopReason, SystemClock, TaskError, WorkSource, Worker};

/// Tasks that are cancelled, one after the other: the first as soon as it runs, before anything watches it.
const ROUNDS: usize = 5;

/// Sent by the handler: that it started, and when and why it was asked to stop.
enum Signal {
    Begun(TaskKey),
    Stopped(Option<StopReason>, Monotonic),
}

/// Median time from the cancel call to the handler's signal; the median, so that one pause of a busy machine
/// does not count. The worker has default settings: it renews its lease every ten seconds.
///
/// # Panics
/// If a handler is stopped for another reason than cancellation.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
pub async fn median_cancellation_latency<Cancelled>(
    source: Arc<dyn WorkSource>,
    cancel: impl Fn(TaskKey) -> Cancelled,
) -> Duration
where
    Cancelled: Future<Output = ()>,
{
    let clock = Arc::new(SystemClock::new());
    let (said, mut heard) = mpsc::unbounded_channel();
    let shutdown = Shutdown::new();
    let registry = Registry::new().share((said, Arc::clone(&clock)));
    let registry = registry.handle("until cancelled", until_cancelled).expect("a name");
    let worker = Worker::builder(Arc::clone(&source), Arc::clone(&clock) as Arc<dyn Clock>);
    let worker = worker.registry(registry).build().expect("the worker is well described");
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let task = NewTask::new(TaskType::new("until cancelled").expect("a name"));
        let enqueued = source.enqueue(vec![task]).await.expect("the store answers").remove(0);
        let enqueued = enqueued.expect("it is stored");
        let Some(Signal::Begun(key)) = heard.recv().await else { panic!("the handler begins first") };
        assert_eq!(key, enqueued.key);
        let cancelled_at = clock.monotonic();
        cancel(key).await;
        let Some(Signal::Stopped(why, stopped_at)) = heard.recv().await else {
            panic!("the handler is signalled")
        };
        assert_eq!(why, Some(StopReason::Cancelled));
        times.push(stopped_at.0.saturating_sub(cancelled_at.0));
    }
    shutdown.request();
    worker.await.expect("the worker stops");
    times.sort_unstable();
    times[times.len() / 2]
}

async fn until_cancelled(_: (), ctx: Ctx) -> Result<(), TaskError> {
    let shared = ctx.shared::<(mpsc::UnboundedSender<Signal>, Arc<SystemClock>)>()?;
    let (said, clock) = &*shared;
    let _ = said.send(Signal::Begun(ctx.key().clone())); // The test may have failed meanwhile.
    ctx.cancelled().await;
    let _ = said.send(Signal::Stopped(ctx.stop_reason(), clock.monotonic()));
    Err(TaskError::retry("stopped on request"))
}
