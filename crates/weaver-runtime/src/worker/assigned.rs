//! Tasks that a leader assigned to this worker: it waits for them, and starts as many as it has free slots.
//! The rest stay assigned to it in the store, where the leader can take them back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select_all;
use weaver_core::error::{Error, Result};
use weaver_core::lease::{LEASE_BATCH_MAX, LeaseRequest};
use weaver_core::name::Namespace;
use weaver_core::queue::{Interest, Wake};

use crate::shutdown::Shutdown;
use crate::worker::Shared;
use crate::worker::fetch::{Want, unless_shutdown};

/// The pause after a failed call, and before it looks for room again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Starts assigned tasks until a shutdown is requested. A request in flight is not interrupted: its leases
/// would be lost.
pub(super) async fn start_assigned(shared: &Arc<Shared>, shutdown: &Shutdown) {
    while !shutdown.is_requested() {
        let mut assigned_in = None;
        unless_shutdown(shutdown, async { assigned_in = wait(shared).await }).await;
        let Some(namespace) = assigned_in else { continue };
        if !shared.may_start_assigned() || !shared.leasing.begin() {
            unless_shutdown(shutdown, shared.sleep_for(RETRY_AFTER)).await;
            continue;
        }
        let started = start(shared, namespace).await;
        shared.leasing_done();
        if let Err(error) = started {
            tracing::warn!(worker = %shared.options.name, %error, "starting assigned tasks failed; retrying");
            unless_shutdown(shutdown, shared.sleep_for(RETRY_AFTER)).await;
        }
    }
}

impl Shared {
    fn may_start_assigned(&self) -> bool {
        let has_room = self.table.lock().running < self.options.concurrency;
        has_room && !self.paused.load(Ordering::Relaxed)
    }
}

/// Waits until a task is assigned to this worker; returns its namespace.
async fn wait(shared: &Shared) -> Option<Namespace> {
    let namespaces = shared.namespaces.lock().clone();
    let wait_in = |namespace: Namespace| {
        let interest =
            Interest::Assigned { namespace: namespace.clone(), worker: shared.options.name.clone() };
        Box::pin(async move { (namespace, shared.source.wait(interest, shared.options.poll_every).await) })
    };
    let waits: Vec<_> = namespaces.into_iter().map(wait_in).collect();
    let (namespace, wake) = match waits.len() {
        // A worker that serves `*`, on a store without namespaces.
        0 => {
            shared.sleep_for(shared.options.poll_every).await;
            return None;
        }
        _ => select_all(waits).await.0,
    };
    match wake {
        Ok(Wake::Ready) => Some(namespace),
        Ok(Wake::TimedOut) => None,
        Err(error) => {
            tracing::warn!(worker = %shared.options.name, %error, "waiting for assigned tasks failed");
            shared.sleep_for(shared.options.poll_every.min(Duration::from_secs(1))).await;
            None
        }
    }
}

async fn start(shared: &Arc<Shared>, namespace: Namespace) -> Result<()> {
    let free = {
        let table = shared.table.lock();
        let buffered = u32::try_from(table.buffer.len()).unwrap_or(u32::MAX);
        shared.options.concurrency.saturating_sub(table.running.saturating_add(buffered)).min(LEASE_BATCH_MAX)
    };
    if free == 0 {
        shared.sleep_for(RETRY_AFTER).await;
        return Ok(());
    }
    let want = Want { free, total: free, types: None };
    let request: LeaseRequest = shared.lease_request(namespace, &want);
    // Taken before the request: the round trip counts against the lease.
    let sent_at = shared.clock.monotonic();
    let started = match shared.source.start_assigned(request.clone()).await {
        // The answer was lost: with the same token it is given again.
        Err(Error::Unavailable { .. }) => shared.source.start_assigned(request).await?,
        answer => answer?,
    };
    shared.accept_in_time(started, sent_at);
    Ok(())
}
