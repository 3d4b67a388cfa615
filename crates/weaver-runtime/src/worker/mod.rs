//! The worker: leases tasks from a [`WorkSource`](crate::WorkSource), runs their handlers, reports outcomes.
//!
//! ```text
//!            lease                    start                      Report
//! source ─────────────▶ buffer ──────────────────▶ handler ──────────────▶ done ──▶ finish ──▶ source
//!            fetch.rs   (a few)   start.rs   a tokio task once it waits             finish.rs
//!                                     ▲
//!                renew.rs: lease renewal, every third of the TTL; stops handlers that were cancelled
//!                    or whose lease cannot be renewed in time
//!                assigned.rs: starts the tasks that a leader assigned to this worker
//!                watch.rs: waits for cancellations, and then has the leases renewed at once
//!                housekeeping.rs: heartbeats, statistics, maintenance
//! ```
//!
//! All loops are one future. Dropping it equals a crash: the handlers are aborted, and the leases expire. (A
//! finisher as a tokio task of its own was tried: the store's state then moves between cores, and two cores
//! are slower than one.)
//!
//! No loop awaits another's store call, so a call that hangs never delays giving up a lease (G2).
//!
//! Backpressure: a lease request asks for no more than the free slots and a small prefetch buffer, so waiting
//! tasks stay in the store, where other workers can lease them.

mod assigned;
mod builder;
mod fetch;
mod finish;
mod housekeeping;
mod leasing;
mod observe;
mod renew;
mod slots;
mod start;
mod stats;
mod table;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::id::LeaseToken;
use weaver_core::lease::Lease;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::time::Monotonic;

pub use builder::{BuildError, WorkerBuilder};
pub(crate) use finish::appends;

use crate::ctx::{StopReason, WorkerEnv};
use crate::maintenance::MaintenanceWatch;
use crate::registry::Registry;
use crate::shutdown::Shutdown;
use crate::source::WorkSource;
use crate::worker::leasing::Leasing;
use crate::worker::start::Fresh;
use crate::worker::stats::Stats;
use crate::worker::table::{Done, Table};

/// Runs tasks. Made by [`Worker::builder`].
pub struct Worker {
    shared: Arc<Shared>,
}

/// Counts of one run of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// Attempts that the store recorded as succeeded.
    pub succeeded: u64,
    /// Attempts that failed, timed out or panicked.
    pub failed: u64,
    /// Tasks released at shutdown, or snoozed by their handler.
    pub released: u64,
    /// Tasks cancelled by their handler, or by a caller while it ran.
    pub cancelled: u64,
    /// Attempts whose lease was lost: the store refused their outcome.
    pub lost: u64,
}

/// State of all loops.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) source: Arc<dyn WorkSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Registry,
    pub(crate) env: Arc<WorkerEnv>,
    /// The held tasks. Never locked across an `.await`.
    pub(crate) table: Mutex<Table>,
    /// Handlers that have a slot and are yet to begin. Locked after the table, never before.
    pub(crate) fresh: Mutex<Fresh>,
    /// Handlers that have stopped and are yet to be reported. Apart from the table, so that a handler that
    /// ends does not contend for the table's lock.
    pub(crate) done: Mutex<Vec<Done>>,
    /// Leases of tasks that were cancelled before their handler started: their holds are to be confirmed.
    pub(crate) never_started: Mutex<Vec<Lease>>,
    /// Notified when `done` or `never_started` has something.
    pub(crate) stopped: Notify,
    /// Set for the fetcher when a slot or a place in the buffer has become free. An AtomicBool, not a Notify:
    /// only the other loops set it, and the fetcher is polled after them. A Notify would make this future
    /// wake itself, and the scheduler wake a thread for it.
    pub(crate) room: AtomicBool,
    /// Notified at the same time, for the shutdown that waits until no task is held.
    pub(crate) idle: Notify,
    /// Notified when leases must be renewed at once.
    pub(crate) renew_now: Notify,
    pub(crate) leasing: Leasing,
    pub(crate) stats: Mutex<Stats>,
    /// Draining by a directive: no new leases until it is withdrawn.
    pub(crate) paused: AtomicBool,
    /// Namespaces served now; with `*` the list changes.
    pub(crate) namespaces: Mutex<Vec<Namespace>>,
    pub(crate) maintenance: Arc<MaintenanceWatch>,
}

/// Checked settings of the builder.
pub(crate) struct Options {
    pub(crate) name: WorkerId,
    pub(crate) all_namespaces: bool,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) types: Option<Vec<TaskType>>,
    pub(crate) concurrency: u32,
    pub(crate) type_limits: Vec<(TaskType, u32)>,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) poll_every: Duration,
    pub(crate) heartbeat_every: Duration,
    /// Whether it leases more tasks than it has free slots.
    pub(crate) prefetch: bool,
    pub(crate) project_root: Option<String>,
    pub(crate) tokens: Arc<dyn Fn() -> LeaseToken + Send + Sync>,
}

impl Worker {
    /// A worker on a source of tasks. By default it serves queue `default` of namespace `default`, and leases
    /// the types that its registry has handlers for.
    pub fn builder(source: Arc<dyn WorkSource>, clock: Arc<dyn Clock>) -> WorkerBuilder {
        WorkerBuilder::new(source, clock)
    }

    /// Unique among live workers; random unless the builder was given one.
    pub fn name(&self) -> &WorkerId {
        &self.shared.options.name
    }

    /// Whether its maintenance succeeds, for health checks of its process.
    pub fn maintenance(&self) -> Arc<MaintenanceWatch> {
        Arc::clone(&self.shared.maintenance)
    }

    /// Runs until a shutdown is requested, then drains: it leases nothing new, waits for its handlers within
    /// its grace period, signals the remaining ones to stop, and releases their tasks. A second request skips
    /// the waiting.
    pub async fn run(self, shutdown: Shutdown) -> RunSummary {
        let shared = &self.shared;
        // However this future ends, a drop included, the handlers are aborted.
        let _handlers = AbortAll(shared);
        tracing::info!(worker = %shared.options.name, "Worker started");
        tokio::select! {
            biased;
            () = renew::renew_leases(shared) => {}
            () = finish::finish(shared) => {}
            () = watch::watch(shared) => {}
            () = housekeeping::heartbeat(shared, &shutdown) => {}
            () = housekeeping::flush_logs(shared) => {}
            () = housekeeping::maintain(shared) => {}
            // Last: the fetcher sees at once what the others have freed.
            () = self.until_stopped(&shutdown) => {}
        }
        housekeeping::deregister(shared).await;
        let summary = shared.stats.lock().summary();
        tracing::info!(worker = %shared.options.name, ?summary, "Worker stopped");
        summary
    }

    async fn until_stopped(&self, shutdown: &Shutdown) {
        let shared = &self.shared;
        let hung = async {
            shutdown.requested().await;
            let grace = shared.clock.monotonic().saturating_add(shared.options.grace);
            tokio::select! {
                biased;
                () = shutdown.forced() => {}
                () = shared.clock.sleep_until(grace) => {}
            }
        };
        tokio::select! {
            biased;
            _ = async { tokio::join!(fetch::fetch(shared, shutdown), assigned::start_assigned(shared, shutdown)) } => {}
            // A call that hangs is dropped, and its leases expire.
            () = hung => {}
        }
        shared.leasing.stop();
        shared.release_buffer();
        shared.wait_idle_for(shared.options.grace, shutdown).await;
        shared.stop_all(StopReason::Shutdown);
        shared.wait_idle_for(shared.options.stop_grace, shutdown).await;
        shared.abort_all();
        // The remaining outcomes are reported; if the store cannot be reached, the leases expire.
        let leases_end = shared.clock.monotonic().saturating_add(shared.options.ttl);
        shared.wait_idle(leases_end, None).await;
    }
}

impl Shared {
    /// As [`wait_idle`](Self::wait_idle), for a span.
    async fn wait_idle_for(&self, span: Duration, shutdown: &Shutdown) {
        self.wait_idle(self.clock.monotonic().saturating_add(span), Some(shutdown)).await;
    }

    /// Waits until no task is held, until a deadline, or until a second shutdown request.
    async fn wait_idle(&self, until: Monotonic, shutdown: Option<&Shutdown>) {
        let forced = async {
            match shutdown {
                Some(shutdown) => shutdown.forced().await,
                None => std::future::pending().await,
            }
        };
        let idle = async {
            loop {
                let freed = self.idle.notified();
                tokio::pin!(freed);
                // Registered before the table is read: a change in between is not missed.
                freed.as_mut().enable();
                if self.table.lock().is_empty() {
                    return;
                }
                freed.await;
            }
        };
        tokio::select! {
            biased;
            () = idle => {}
            () = forced => {}
            () = self.clock.sleep_until(until) => {}
        }
    }

    /// When a lease requested at `sent_at` must have been given up: at 9/10 of the TTL, before the store can
    /// expire it.
    pub(crate) fn valid_until(&self, sent_at: Monotonic) -> Monotonic {
        sent_at.saturating_add(self.options.ttl * 9 / 10)
    }
}

struct AbortAll<'a>(&'a Shared);

impl Drop for AbortAll<'_> {
    fn drop(&mut self) {
        self.0.abort_all();
    }
}
