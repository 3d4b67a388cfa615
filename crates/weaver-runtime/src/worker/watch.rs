//! Cancellation arrives within a second (G11): the worker waits for it beside its renewals, and renews at
//! once when the store says that a task in hand was cancelled. The renewal says which; without this the
//! handler would run on for up to a third of its lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use weaver_core::error::Result;
use weaver_core::lease::Lease;
use weaver_core::queue::{Interest, Wake};

use crate::worker::Shared;

/// A task that is taken in hand while a wait is under way is watched this much later.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The longest wait, when the same tasks stay in hand.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The most leases of one wait; more are watched by several.
const BATCH_MAX: usize = 1000;
/// The longest pause after a wait that failed.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Watches for ever.
pub(super) async fn watch(shared: &Arc<Shared>) {
    let (mut timeout, mut retry) = (LOOK_EVERY, LOOK_EVERY);
    loop {
        let watched = shared.watched();
        if watched.leases.is_empty() {
            timeout = LOOK_EVERY;
            shared.rest(LOOK_EVERY).await;
            continue;
        }
        let end = tokio::select! {
            biased;
            end = cancelled(shared, watched.leases, timeout) => end,
            () = shared.in_hand_changed(watched.last_number) => {
                timeout = LOOK_EVERY;
                continue;
            }
        };
        match end {
            Ok(Wake::Ready) => {
                shared.poke.notify_one();
                // Until the renewal is answered the wait would say the same again.
                shared.rest(LOOK_EVERY).await;
            }
            // Quick handlers: a short wait ends by itself, where a long one would have to be given up again
            // and again.
            Ok(Wake::TimedOut) => timeout = (timeout * 2).min(WAIT_MAX),
            Err(error) => {
                let worker = &shared.options.name;
                tracing::debug!(%worker, %error, "waiting for cancellations failed; the next renewal tells");
                shared.rest(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
                continue;
            }
        }
        retry = LOOK_EVERY;
    }
}

/// Waits until one of the leases is cancelled.
async fn cancelled(shared: &Shared, leases: Vec<Lease>, timeout: Duration) -> Result<Wake> {
    let wait =
        |leases: &[Lease]| shared.source.wait(Interest::Cancelled { leases: leases.to_vec() }, timeout);
    select_all(leases.chunks(BATCH_MAX).map(wait)).await.0
}

struct Watched {
    leases: Vec<Lease>,
    /// The newest task among them.
    last_number: u64,
}

impl Shared {
    /// What is in hand and has not been told to stop.
    fn watched(&self) -> Watched {
        let table = self.table.lock();
        let buffered = table.buffer.iter().map(|buffered| (buffered.number, &buffered.ctx));
        let started = table.started.iter().filter(|(_, started)| started.is_running());
        let started = started.map(|(number, started)| (number, &started.ctx));
        let in_hand = buffered.chain(started);
        let (mut leases, mut last_number) = (Vec::new(), 0);
        for (number, ctx) in in_hand.filter(|(_, ctx)| !ctx.is_cancelled()) {
            leases.push(ctx.lease().clone());
            last_number = number.max(last_number);
        }
        Watched { leases, last_number }
    }

    /// Resolves when something newer is in hand than what is watched, or nothing is left of that.
    async fn in_hand_changed(&self, last_number: u64) {
        loop {
            self.rest(LOOK_EVERY).await;
            let watched = self.watched();
            if watched.leases.is_empty() || watched.last_number > last_number {
                return;
            }
        }
    }

    async fn rest(&self, span: Duration) {
        self.clock.sleep_until(self.clock.monotonic().saturating_add(span)).await;
    }
}
