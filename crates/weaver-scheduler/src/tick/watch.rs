//! The loop of a node: ticks when something is due, when something changed here, and every now and then.

use std::time::Duration;

use weaver_core::time::Monotonic;

use super::Ticked;
use crate::service::Scheduler;

/// How often a node reads the settings others may have changed.
const RELOAD_EVERY: Duration = Duration::from_secs(5);
/// How often a node removes what is too old.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

impl Scheduler {
    /// Ticks until `stop` resolves; the tick under way is finished first. Errors of the store are logged and
    /// tried again with the next poll.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut settings = self.settings.subscribe();
        let (mut reload_at, mut sweep_at) = (self.clock.monotonic(), self.clock.monotonic());
        loop {
            if self.is_time(&mut reload_at, RELOAD_EVERY)
                && let Err(error) = self.settings.reload().await
            {
                tracing::warn!(%error, "settings are as they were");
            }
            if self.is_time(&mut sweep_at, SWEEP_EVERY)
                && let Err(error) = self.sweep().await
            {
                tracing::warn!(%error, "old events stay until the next sweep");
            }
            let ticked = self.tick().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a tick failed; what it left is done with the next");
                Ticked::default()
            });
            let wait = if ticked.more { Duration::ZERO } else { self.idle_for(&ticked) };
            let sleep = self.clock.sleep_until(self.clock.monotonic().saturating_add(wait));
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.changed.notified() => {}
                // Its sender is ours: it cannot be gone.
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
