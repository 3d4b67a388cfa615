//! What every worker does beside its work: says that it is alive, tells how it went, and cleans up after
//! others.

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

/// Between two entries of statistics.
const STATS_EVERY: Duration = Duration::from_secs(60);
/// How long statistics are kept.
const STATS_KEPT: Duration = Duration::from_secs(25 * 3600);
/// Between two looks at what handlers have logged.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Between two rounds of maintenance.
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);

/// Beats for ever.
pub(super) async fn beat(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let started_at = shared.clock.now();
    let mut stats_due = shared.clock.monotonic().saturating_add(STATS_EVERY);
    loop {
        if shared.options.all_namespaces {
            follow_namespaces(shared).await;
        }
        match shared.source.beat(shared.beats(started_at, shutdown.is_asked())).await {
            Ok(directives) => shared.obey(&directives, shutdown),
            Err(error) => tracing::warn!(worker = %shared.options.name, %error, "a heartbeat was not heard"),
        }
        let now = shared.clock.monotonic();
        if now >= stats_due {
            write_stats(shared).await;
            stats_due = now.saturating_add(STATS_EVERY);
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(shared.options.beat_every)).await;
    }
}

/// Cleans up for ever. Every worker does, so that nobody must: no leader, and no harm in doing it twice.
pub(super) async fn maintain(shared: &Arc<Shared>) {
    loop {
        let round = shared.source.maintain().await;
        shared.maintenance.note(shared.clock.now(), round.as_ref().err());
        match round {
            Ok(done) if done == Maintained::default() => {}
            Ok(done) => tracing::info!(worker = %shared.options.name, ?done, "cleaned up after others"),
            Err(error) => tracing::warn!(worker = %shared.options.name, %error, "maintenance failed"),
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(MAINTAIN_EVERY)).await;
    }
}

/// Writes what running handlers log, for ever, so that it can be followed while they run.
pub(super) async fn log(shared: &Arc<Shared>) {
    loop {
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(LOG_EVERY)).await;
        let running =
            shared.table.lock().started.iter().map(|(_, started)| started.ctx.clone()).collect::<Vec<_>>();
        write_logs(shared, running.iter(), false).await;
    }
}

/// Says goodbye, as far as the store can be reached.
pub(super) async fn leave(shared: &Arc<Shared>) {
    write_stats(shared).await;
    let namespaces = shared.namespaces.lock().clone();
    for namespace in namespaces {
        let key = RunnerKey { namespace, runner_id: shared.options.name.clone() };
        if let Err(error) = shared.source.leave(&key).await {
            tracing::debug!(%error, "nobody heard the goodbye; the heartbeat will tell");
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
        Err(error) => tracing::warn!(worker = %shared.options.name, %error, "namespaces cannot be listed"),
    }
}

async fn write_stats(shared: &Shared) {
    let entries = shared.stats.lock().take_minute(shared.options.name.as_str(), shared.clock.monotonic());
    let keep = TrimBefore::Time(shared.clock.now().saturating_sub(STATS_KEPT));
    for (namespace, entry) in entries {
        let stream = StreamKey::new(namespace, "stats");
        if let Err(error) = shared.source.append(&stream, &[entry], None, Some(keep)).await {
            tracing::debug!(%error, "a minute of statistics is lost");
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
        };
        self.namespaces.lock().iter().cloned().map(beat).collect()
    }

    /// Does as it is told: the strictest directive of its namespaces counts.
    fn obey(&self, directives: &[Directive], shutdown: &Shutdown) {
        let paused = directives.contains(&Directive::Drain);
        if self.paused.swap(paused, Ordering::Relaxed) != paused {
            self.freed();
        }
        if directives.contains(&Directive::Stop) && !shutdown.is_asked() {
            tracing::info!(worker = %self.options.name, "told to stop");
            shutdown.ask();
        }
    }
}
