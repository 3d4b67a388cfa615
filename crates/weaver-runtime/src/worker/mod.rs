//! The worker: takes tasks from a [`WorkSource`](crate::WorkSource), runs their handlers, reports their ends.
//!
//! ```text
//!            lease                    start                      Report
//! source ─────────────▶ buffer ──────────────────▶ handler ──────────────▶ done ──▶ finish ──▶ source
//!            fetch.rs   (a few)   start.rs   a tokio task once it waits             finish.rs
//!                                     ▲
//!                keep.rs: renews every third of a lease, stops what was cancelled or cannot be renewed in time
//!                watch.rs: waits for cancellations, and has the leases renewed at once when there is one
//!                upkeep.rs: heartbeats, statistics, maintenance
//! ```
//!
//! All loops are one future: dropping it is a crash, and takes the handlers along. (A finisher as a task of
//! its own was tried: the store's state then travels between the cores, and two cores are slower than one.)
//! No loop waits for another's store call, so a call that hangs never keeps leases from being given up in
//! time (G2).

mod builder;
mod fetch;
mod finish;
mod keep;
mod observe;
mod seats;
mod start;
mod stats;
mod table;
mod upkeep;
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

use crate::ctx::{StopReason, Surroundings};
use crate::maintenance::MaintenanceWatch;
use crate::registry::Registry;
use crate::shutdown::Shutdown;
use crate::source::WorkSource;
use crate::worker::start::Fresh;
use crate::worker::stats::Stats;
use crate::worker::table::{Done, Table};

/// Runs tasks. Made by [`Worker::builder`].
pub struct Worker {
    shared: Arc<Shared>,
}

/// What a worker did while it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// Tasks that ended well.
    pub succeeded: u64,
    /// Attempts that failed, timed out or panicked.
    pub failed: u64,
    /// Tasks given back: at shutdown, or snoozed.
    pub released: u64,
    /// Tasks cancelled, by their handler or while it ran.
    pub cancelled: u64,
    /// Attempts whose lease was lost: somebody else decides about them.
    pub lost: u64,
}

/// What the loops share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) source: Arc<dyn WorkSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Registry,
    pub(crate) surroundings: Arc<Surroundings>,
    /// The tasks in hand. Never locked across an `.await`.
    pub(crate) table: Mutex<Table>,
    /// Handlers that have a slot and are yet to begin. Locked after the table, never before.
    pub(crate) fresh: Mutex<Fresh>,
    /// Handlers that have stopped and are yet to be reported. Apart from the table, so that a handler that
    /// ends does not wait for whoever looks at the table.
    pub(crate) done: Mutex<Vec<Done>>,
    /// Leases of tasks that were cancelled before they were started: to be confirmed.
    pub(crate) never_started: Mutex<Vec<Lease>>,
    /// Rung when `done` or `never_started` has something.
    pub(crate) stopped: Notify,
    /// Set for the fetcher when a handler's slot or a place in the buffer has become free. A flag and no
    /// bell: only the other loops set it, and the fetcher is polled after them. A bell would have the future
    /// wake itself, and the scheduler wake a thread for it.
    pub(crate) room: AtomicBool,
    /// Rung at the same time for whoever waits until nothing is in hand.
    pub(crate) idle: Notify,
    /// Rung when leases must be renewed at once.
    pub(crate) poke: Notify,
    pub(crate) stats: Mutex<Stats>,
    /// Told to take nothing new (a directive, not a shutdown).
    pub(crate) paused: AtomicBool,
    /// Namespaces served at the moment.
    pub(crate) namespaces: Mutex<Vec<Namespace>>,
    pub(crate) maintenance: Arc<MaintenanceWatch>,
}

/// What the builder was told.
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
    pub(crate) beat_every: Duration,
    /// Whether it leases more than it can start at once.
    pub(crate) ahead: bool,
    pub(crate) project_root: Option<String>,
    pub(crate) tokens: Arc<dyn Fn() -> LeaseToken + Send + Sync>,
}

impl Worker {
    /// A worker on a source of work. Without more it serves queue `default` of namespace `default`, and takes
    /// the types that its registry has handlers for.
    pub fn builder(source: Arc<dyn WorkSource>, clock: Arc<dyn Clock>) -> WorkerBuilder {
        WorkerBuilder::new(source, clock)
    }

    /// Its name.
    pub fn name(&self) -> &WorkerId {
        &self.shared.options.name
    }

    /// Whether its maintenance gets done, for health checks of the process it runs in.
    pub fn maintenance(&self) -> Arc<MaintenanceWatch> {
        Arc::clone(&self.shared.maintenance)
    }

    /// Works until it is asked to stop: then takes nothing new, waits for its handlers within its grace,
    /// tells those left to stop, and gives back what they did not finish. Asked twice, it does not wait.
    pub async fn run(self, shutdown: Shutdown) -> RunSummary {
        let shared = &self.shared;
        // Whatever ends this future, a drop included, ends the handlers.
        let _handlers = AbortAll(shared);
        tracing::info!(worker = %shared.options.name, "Working");
        tokio::select! {
            biased;
            () = keep::keep(shared) => {}
            () = finish::finish(shared) => {}
            () = watch::watch(shared) => {}
            () = upkeep::beat(shared, &shutdown) => {}
            () = upkeep::log(shared) => {}
            () = upkeep::maintain(shared) => {}
            // Last: the fetcher sees at once what the others have freed.
            () = self.until_stopped(&shutdown) => {}
        }
        upkeep::leave(shared).await;
        let summary = shared.stats.lock().summary();
        tracing::info!(worker = %shared.options.name, ?summary, "Stopped");
        summary
    }

    async fn until_stopped(&self, shutdown: &Shutdown) {
        let shared = &self.shared;
        let hung = async {
            shutdown.asked().await;
            let grace = shared.clock.monotonic().saturating_add(shared.options.grace);
            tokio::select! {
                biased;
                () = shutdown.asked_twice() => {}
                () = shared.clock.sleep_until(grace) => {}
            }
        };
        tokio::select! {
            biased;
            () = fetch::fetch(shared, shutdown) => {}
            // A call that does not come back is given up, and what it granted with it.
            () = hung => {}
        }
        shared.give_back_buffer();
        shared.wait_idle_for(shared.options.grace, shutdown).await;
        shared.stop_all(StopReason::Shutdown);
        shared.wait_idle_for(shared.options.stop_grace, shutdown).await;
        shared.abort_all();
        // What is left is to be reported; if the store cannot be reached, the leases end by themselves.
        let leases_end = shared.clock.monotonic().saturating_add(shared.options.ttl);
        shared.wait_idle(leases_end, None).await;
    }
}

impl Shared {
    /// Waits until nothing is in hand, or for this long, or until asked twice.
    async fn wait_idle_for(&self, span: Duration, shutdown: &Shutdown) {
        self.wait_idle(self.clock.monotonic().saturating_add(span), Some(shutdown)).await;
    }

    /// Waits until nothing is in hand, or for a time, or until asked twice.
    async fn wait_idle(&self, until: Monotonic, shutdown: Option<&Shutdown>) {
        let asked_twice = async {
            match shutdown {
                Some(shutdown) => shutdown.asked_twice().await,
                None => std::future::pending().await,
            }
        };
        let idle = async {
            loop {
                let freed = self.idle.notified();
                tokio::pin!(freed);
                // Registered before the table is looked at: a change in between is seen.
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
            () = asked_twice => {}
            () = self.clock.sleep_until(until) => {}
        }
    }

    /// When a lease asked for at `sent_at` must have been given up: before the store may think it is over.
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
