//! A cancellation reaches its handler within a second (G11): the worker waits for cancellations, and renews
//! at once when the store reports one among its held tasks. The renewal says which. Without this, the handler
//! would run on until the next renewal, up to a third of the lease TTL.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use weaver_core::error::Result;
use weaver_core::lease::Lease;
use weaver_core::queue::{Interest, Wake};

use crate::worker::Shared;

/// A task that is leased during a wait is watched this much later.
const RECHECK_EVERY: Duration = Duration::from_millis(500);
/// The longest wait, while the held tasks stay the same.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Leases per wait; more are watched by several waits.
const BATCH_MAX: usize = 1000;
/// The longest backoff after a failed wait.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Never returns.
pub(super) async fn watch(shared: &Arc<Shared>) {
    let (mut timeout, mut retry) = (RECHECK_EVERY, RECHECK_EVERY);
    loop {
        let watched = shared.watched();
        if watched.leases.is_empty() {
            timeout = RECHECK_EVERY;
            shared.sleep_for(RECHECK_EVERY).await;
            continue;
        }
        let end = tokio::select! {
            biased;
            end = cancelled(shared, watched.leases, timeout) => end,
            () = shared.held_changed(watched.last_number) => {
                timeout = RECHECK_EVERY;
                continue;
            }
        };
        match end {
            Ok(Wake::Ready) => {
                shared.renew_now.notify_one();
                // Until the renewal is answered, another wait would return at once.
                shared.sleep_for(RECHECK_EVERY).await;
            }
            // Quick handlers: a short wait times out, where a long one would be dropped again and again.
            Ok(Wake::TimedOut) => timeout = (timeout * 2).min(WAIT_MAX),
            Err(error) => {
                let worker = &shared.options.name;
                tracing::debug!(%worker, %error, "waiting for cancellations failed; retrying");
                shared.sleep_for(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
                continue;
            }
        }
        retry = RECHECK_EVERY;
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
    /// The held tasks that are not cancelled yet.
    fn watched(&self) -> Watched {
        let table = self.table.lock();
        let buffered = table.buffer.iter().map(|buffered| (buffered.number, &buffered.ctx));
        let started = table.started.iter().filter(|(_, started)| started.is_running());
        let started = started.map(|(number, started)| (number, &started.ctx));
        let held = buffered.chain(started);
        let (mut leases, mut last_number) = (Vec::new(), 0);
        for (number, ctx) in held.filter(|(_, ctx)| !ctx.is_cancelled()) {
            leases.push(ctx.lease().clone());
            last_number = number.max(last_number);
        }
        Watched { leases, last_number }
    }

    /// Resolves when a newer task is held than those watched, or none of them is held any more.
    async fn held_changed(&self, last_number: u64) {
        loop {
            self.sleep_for(RECHECK_EVERY).await;
            let watched = self.watched();
            if watched.leases.is_empty() || watched.last_number > last_number {
                return;
            }
        }
    }
}
