//! Cancellation on real time, of a worker with default settings (G11): how long until its handler is told.

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

/// So many tasks are cancelled, one after the other: the first as soon as it runs, before anything watches
/// it.
const ROUNDS: usize = 5;

/// What a handler says: that it has begun, and when and why it was told to stop.
enum Said {
    Begun(TaskKey),
    Told(Option<StopReason>, Monotonic),
}

/// The median of the times from before a cancellation was asked for until the handler was told: one pause of
/// a busy machine is nothing of the store's. Nothing of the worker is set: its
/// lease is the default one, which it renews every ten seconds.
///
/// # Panics
/// If a handler is told anything but that its task was cancelled.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
pub async fn median_until_told<Cancelled>(
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
    let registry = registry.handle("until told", until_told).expect("a name");
    let worker = Worker::builder(Arc::clone(&source), Arc::clone(&clock) as Arc<dyn Clock>);
    let worker = worker.registry(registry).build().expect("the worker is well described");
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let task = NewTask::new(TaskType::new("until told").expect("a name"));
        let enqueued = source.enqueue(vec![task]).await.expect("it answers").remove(0);
        let enqueued = enqueued.expect("it is stored");
        let Some(Said::Begun(key)) = heard.recv().await else { panic!("the handler begins first") };
        assert_eq!(key, enqueued.key);
        let asked_at = clock.monotonic();
        cancel(key).await;
        let Some(Said::Told(why, told_at)) = heard.recv().await else { panic!("the handler is told") };
        assert_eq!(why, Some(StopReason::Cancelled));
        times.push(told_at.0.saturating_sub(asked_at.0));
    }
    shutdown.ask();
    worker.await.expect("it ends");
    times.sort_unstable();
    times[times.len() / 2]
}

async fn until_told(_: (), ctx: Ctx) -> Result<(), TaskError> {
    let shared = ctx.shared::<(mpsc::UnboundedSender<Said>, Arc<SystemClock>)>()?;
    let (said, clock) = &*shared;
    let _ = said.send(Said::Begun(ctx.key().clone())); // The test may have failed meanwhile.
    ctx.cancelled().await;
    let _ = said.send(Said::Told(ctx.stop_reason(), clock.monotonic()));
    Err(TaskError::retry("told to stop"))
}
