//! The loop of a node: it ticks when a schedule is due, after a local change, and at every poll interval.

use std::time::Duration;

use weaver_core::time::Monotonic;

use super::Ticked;
use crate::service::Scheduler;

/// How often a node reads settings that other nodes may have changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);
/// How often a node applies retention.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

impl Scheduler {
    /// Ticks until `stop` resolves; the current tick is finished first. Errors of the store are logged, and
    /// retried at the next poll.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut settings = self.settings.subscribe();
        let (mut reload_at, mut sweep_at) = (self.clock.monotonic(), self.clock.monotonic());
        loop {
            if self.is_time(&mut reload_at, RELOAD_INTERVAL)
                && let Err(error) = self.settings.reload().await
            {
                tracing::warn!(%error, "cannot reload settings; keeping the current ones");
            }
            if self.is_time(&mut sweep_at, SWEEP_INTERVAL)
                && let Err(error) = self.sweep().await
            {
                tracing::warn!(%error, "retention sweep failed; retrying at the next interval");
            }
            let ticked = self.tick().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "scheduler tick failed; retrying at the next poll");
                Ticked::default()
            });
            let wait = if ticked.more { Duration::ZERO } else { self.idle_for(&ticked) };
            let sleep = self.clock.sleep_until(self.clock.monotonic().saturating_add(wait));
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.changed.notified() => {}
                // `self` owns the sender, so this cannot fail.
                _ = settings.changed() => {}
                () = sleep => {}
            }
        }
    }

    fn is_time(&self, at: &mut Monotonic, every: Duration) -> bool {
        let now = self.clock.monotonic();
        let is_time = now >= *at;
        if is_time {
            *at = now.saturating_add(every);
        }
        is_time
    }

    fn idle_for(&self, ticked: &Ticked) -> Duration {
        let poll = self.settings.current().poll_interval;
        ticked.next_due.map_or(poll, |due| due.since(self.clock.now()).min(poll))
    }
}
