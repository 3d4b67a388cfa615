//! Housekeeping beside the handlers: heartbeats with directives, statistics, attempt logs, and maintenance
//! (lease expiry, retention).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weaver_core::ports::{Beat, Directive, RunnerKey, StreamKey, TrimBefore};
use weaver_core::time::Timestamp;

use crate::shutdown::Shutdown;
use crate::source::Maintained;
use crate::worker::Shared;
use crate::worker::finish::write_logs;

/// One entry of statistics per minute.
const STATS_EVERY: Duration = Duration::from_secs(60);
/// Statistics older than this are trimmed.
const STATS_KEPT: Duration = Duration::from_secs(25 * 3600);
const LOG_EVERY: Duration = Duration::from_secs(1);
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);

/// Sends heartbeats, and statistics with them. Never returns.
pub(super) async fn heartbeat(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let started_at = shared.clock.now();
    let mut stats_due = shared.clock.monotonic().saturating_add(STATS_EVERY);
    loop {
        if shared.options.all_namespaces {
            follow_namespaces(shared).await;
        }
        match shared.source.heartbeat(shared.beats(started_at, shutdown.is_requested())).await {
            Ok(directives) => shared.apply_directives(&directives, shutdown),
            Err(error) => tracing::warn!(worker = %shared.options.name, %error, "heartbeat failed"),
        }
        let now = shared.clock.monotonic();
        if now >= stats_due {
            write_stats(shared).await;
            stats_due = now.saturating_add(STATS_EVERY);
        }
        shared
            .clock
            .sleep_until(shared.clock.monotonic().saturating_add(shared.options.heartbeat_every))
            .await;
    }
}

/// Runs maintenance. Never returns. Every worker does so: it is idempotent and needs no leader election.
pub(super) async fn maintain(shared: &Arc<Shared>) {
    loop {
        let round = shared.source.maintain(shared.clock.monotonic()).await;
        shared.maintenance.note(shared.clock.now(), round.as_ref().err());
        match round {
            Ok(done) if done == Maintained::default() => {}
            Ok(done) => tracing::info!(worker = %shared.options.name, ?done, "maintenance done"),
            Err(error) => tracing::warn!(worker = %shared.options.name, %error, "maintenance failed"),
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(MAINTAIN_EVERY)).await;
    }
}

/// Appends what running handlers log, so that it can be followed while they run. Never returns.
pub(super) async fn flush_logs(shared: &Arc<Shared>) {
    loop {
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(LOG_EVERY)).await;
        let running =
            shared.table.lock().started.iter().map(|(_, started)| started.ctx.clone()).collect::<Vec<_>>();
        write_logs(shared, running.iter(), false).await;
    }
}

/// Deregisters the worker. Best effort: without it, the missing heartbeats show that it stopped.
pub(super) async fn deregister(shared: &Arc<Shared>) {
    write_stats(shared).await;
    let namespaces = shared.namespaces.lock().clone();
    for namespace in namespaces {
        let key = RunnerKey { namespace, runner_id: shared.options.name.clone() };
        if let Err(error) = shared.source.deregister(&key).await {
            tracing::debug!(%error, "deregistering failed; the worker is listed until it counts as silent");
        }
    }
}

async fn follow_namespaces(shared: &Shared) {
    match shared.source.namespaces().await {
        Ok(names) => {
            let mut served = shared.namespaces.lock();
            if *served != names {
                *served = names;
                drop(served);
                shared.freed();
            }
        }
        Err(error) => tracing::warn!(worker = %shared.options.name, %error, "listing namespaces failed"),
    }
}

async fn write_stats(shared: &Shared) {
    let entries = shared.stats.lock().take_minute(shared.options.name.as_str(), shared.clock.monotonic());
    let keep = TrimBefore::Time(shared.clock.now().saturating_sub(STATS_KEPT));
    for (namespace, entry) in entries {
        let stream = StreamKey::new(namespace, "stats");
        if let Err(error) = shared.source.append(&stream, &[entry], None, Some(keep)).await {
            tracing::debug!(%error, "storing statistics failed; one minute is lost");
        }
    }
}

impl Shared {
    fn beats(&self, started_at: Timestamp, stopping: bool) -> Vec<Beat> {
        let mut running: BTreeMap<_, u32> = BTreeMap::new();
        for (_, started) in self.table.lock().started.iter() {
            *running.entry(started.ctx.key().namespace.clone()).or_default() += 1;
        }
        let draining = stopping || self.paused.load(Ordering::Relaxed);
        let beat = |namespace: weaver_core::name::Namespace| Beat {
            running: running.get(&namespace).copied().unwrap_or(0),
            key: RunnerKey { namespace, runner_id: self.options.name.clone() },
            project_root: self.options.project_root.clone(),
            started_at,
            queues: self.options.queues.clone(),
            types: self.options.types.clone(),
            capacity: self.options.concurrency,
            draining,
            every: Some(self.options.heartbeat_every),
        };
        self.namespaces.lock().iter().cloned().map(beat).collect()
    }

    /// The strictest directive of its namespaces counts.
    fn apply_directives(&self, directives: &[Directive], shutdown: &Shutdown) {
        // A detached worker takes nothing new either, until it is attached again.
        let takes_nothing = |directive: &Directive| matches!(directive, Directive::Drain | Directive::Detach);
        let paused = directives.iter().any(takes_nothing);
        if self.paused.swap(paused, Ordering::Relaxed) != paused {
            self.freed();
        }
        if directives.contains(&Directive::Stop) && !shutdown.is_requested() {
            tracing::info!(worker = %self.options.name, "stop directive received; draining");
            shutdown.request();
        }
    }
}
