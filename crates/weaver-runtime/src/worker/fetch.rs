//! Fetching: as many tasks as there are free slots, and a small prefetch buffer while handlers end quickly.
//! That is the worker's backpressure: what it cannot start soon stays in the store.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{pending, select_all};
use weaver_core::error::Result;
use weaver_core::lease::{LEASE_BATCH_MAX, LeaseRequest};
use weaver_core::name::{Namespace, TaskType};
use weaver_core::queue::{Interest, Wake};

use crate::shutdown::Shutdown;
use crate::worker::Shared;
use crate::worker::table::Table;

/// First backoff after a failed lease request; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Wake-ups in a row that led to no lease before the worker backs off.
const EMPTY_WAKES_MAX: u32 = 16;

/// The size of a lease request.
pub(super) struct Want {
    /// Free slots: the most fragile tasks that may be leased.
    pub(super) free: u32,
    /// Free slots and prefetch.
    pub(super) total: u32,
    /// `None`: any type.
    pub(super) types: Option<Vec<TaskType>>,
}

/// Fetches until a shutdown is requested. A request in flight is not interrupted: its leases would be lost.
pub(super) async fn fetch(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut turn = 0;
    let mut retry = RETRY_MIN;
    let mut empty_wakes = 0;
    while !shutdown.is_requested() {
        if shared.leasing.is_busy() {
            // With a report: the finisher says when it is answered.
            unless_shutdown(shutdown, room(shared)).await;
            continue;
        }
        let want = shared.want();
        if want.total == 0 || shared.paused.load(Ordering::Relaxed) {
            unless_shutdown(shutdown, room(shared)).await;
            continue;
        }
        let is_answered = shared.leasing.take_found_nothing();
        match if is_answered { Ok(false) } else { lease(shared, &want, turn).await } {
            Ok(true) => {
                (retry, empty_wakes) = (RETRY_MIN, 0);
                // Let the handlers that were just started run, on a runtime of one thread too.
                tokio::task::yield_now().await;
            }
            Ok(false) => {
                retry = RETRY_MIN;
                unless_shutdown(shutdown, async {
                    empty_wakes = if wait(shared, &want).await { empty_wakes + 1 } else { 0 };
                })
                .await;
                if empty_wakes >= EMPTY_WAKES_MAX {
                    // Woken again and again without a lease: other workers are faster, or the store is wrong.
                    empty_wakes = 0;
                    unless_shutdown(shutdown, shared.sleep_for(RETRY_MIN)).await;
                }
            }
            Err(error) => {
                let worker = &shared.options.name;
                tracing::warn!(%worker, %error, ?retry, "lease request failed; retrying");
                unless_shutdown(shutdown, shared.sleep_for(retry)).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
        turn += 1;
    }
}

impl Shared {
    pub(super) async fn sleep_for(&self, span: Duration) {
        self.clock.sleep_until(self.clock.monotonic().saturating_add(span)).await;
    }

    /// Free slots, and a buffer as large as the number of handlers that ended since the last fetch: quick
    /// handlers find their next task buffered, slow ones hoard nothing. At most twice the concurrency is
    /// buffered.
    pub(super) fn want(self: &Arc<Self>) -> Want {
        let mut table = self.table.lock();
        self.start_buffered(&mut table);
        let types = self.types_with_room(&table);
        let buffered = u32::try_from(table.buffer.len()).unwrap_or(u32::MAX);
        // What remains in the buffer has no slot, or its type is at its limit.
        let free = self.options.concurrency - table.running;
        let room = (2 * self.options.concurrency).saturating_sub(buffered);
        let ended = if self.options.prefetch { table.ended_since_fetch } else { 0 };
        let total = free.saturating_add(ended).min(room).min(LEASE_BATCH_MAX);
        // While all slots are busy, a request for a few tasks is not worth a call.
        let worthwhile = free > 0 || total >= self.options.concurrency / 2;
        if !worthwhile || types.as_ref().is_some_and(Vec::is_empty) {
            return Want { free, total: 0, types };
        }
        table.ended_since_fetch = 0;
        Want { free, total, types }
    }

    /// The types to lease. While one is at its limit, only the others are requested: otherwise its tasks
    /// would fill the buffer and block them (head-of-line blocking).
    fn types_with_room(&self, table: &Table) -> Option<Vec<TaskType>> {
        let limits = &self.options.type_limits;
        let full: Vec<_> = limits.iter().filter(|(limited, max)| table.is_saturated(limited, *max)).collect();
        if full.is_empty() {
            return self.options.types.clone();
        }
        let known = self.options.types.clone().unwrap_or_else(|| self.registry.types().cloned().collect());
        let has_room = |known: &TaskType| !full.iter().any(|(limited, _)| limited == known);
        Some(known.into_iter().filter(has_room).collect())
    }
}

/// Leases from the namespaces, round robin; returns whether anything was leased.
async fn lease(shared: &Arc<Shared>, want: &Want, turn: usize) -> Result<bool> {
    if !shared.leasing.begin() {
        return Ok(false);
    }
    let found = lease_each(shared, want, turn).await;
    shared.leasing.done();
    found
}

async fn lease_each(shared: &Arc<Shared>, want: &Want, turn: usize) -> Result<bool> {
    let namespaces = shared.namespaces.lock().clone();
    let (mut free, mut total) = (want.free, want.total);
    let mut found = false;
    for index in 0..namespaces.len() {
        if total == 0 {
            break;
        }
        let namespace = namespaces[(index + turn) % namespaces.len()].clone();
        let request = LeaseRequest { max: total, slots: free, ..shared.lease_request(namespace, want) };
        // Taken before the request: the round trip counts against the lease.
        let sent_at = shared.clock.monotonic();
        let leased = lease_with_retry(shared, request).await?;
        let count = u32::try_from(leased.len()).unwrap_or(u32::MAX);
        found |= count > 0;
        free = free.saturating_sub(count);
        total = total.saturating_sub(count);
        shared.accept_in_time(leased, sent_at);
    }
    Ok(found)
}

/// Retries once with the same token if the response was lost: the store returns the leases of the first call.
async fn lease_with_retry(shared: &Shared, request: LeaseRequest) -> Result<Vec<weaver_core::lease::Leased>> {
    match shared.source.lease(request.clone()).await {
        Err(weaver_core::error::Error::Unavailable { .. }) => shared.source.lease(request).await,
        answer => answer,
    }
}

/// Waits for something, or until a shutdown is requested.
pub(super) async fn unless_shutdown(shutdown: &Shutdown, wait: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = shutdown.requested() => {}
        () = wait => {}
    }
}

/// Waits until there may be something to lease, or room for more; returns whether the store announced work.
async fn wait(shared: &Shared, want: &Want) -> bool {
    let namespaces = shared.namespaces.lock().clone();
    let interest = |namespace: Namespace| Interest::Work {
        namespace,
        queues: shared.options.queues.clone(),
        types: want.types.clone(),
        fragile: want.free > 0,
    };
    let mut waits: Vec<_> = namespaces
        .into_iter()
        .map(|namespace| shared.source.wait(interest(namespace), shared.options.poll_every))
        .collect();
    let work = async {
        let first = match waits.len() {
            // A worker that serves `*`, on a store without namespaces.
            0 => pending().await,
            1 => waits.remove(0).await,
            _ => select_all(waits).await.0,
        };
        match first {
            Ok(wake) => wake == Wake::Ready,
            Err(error) => {
                tracing::warn!(worker = %shared.options.name, %error, "waiting for work failed");
                shared.sleep_for(RETRY_MIN).await;
                false
            }
        }
    };
    tokio::select! {
        biased;
        announced = work => announced,
        () = freed(shared) => false,
    }
}

/// Waits until a slot is free, or something else about the worker has changed.
async fn room(shared: &Shared) {
    tokio::select! {
        biased;
        () = freed(shared) => {}
        () = shared.sleep_for(shared.options.poll_every) => {}
    }
}

/// Waits for the flag. It needs no waker: the loops that set it are polled before this one.
async fn freed(shared: &Shared) {
    poll_fn(|_| if shared.room.swap(false, Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}
