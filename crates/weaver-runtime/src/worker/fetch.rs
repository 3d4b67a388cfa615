//! Getting work: as much as there are free slots, and a few more if handlers end quickly.

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

/// How long to wait after the store could not be reached; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
/// At most so long.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How often in a row a worker believes that there is work when it gets none.
const IN_VAIN_MAX: u32 = 16;

/// How much to ask for.
struct Want {
    /// Handlers that could start at once: the most fragile tasks that may come.
    free: u32,
    /// In all.
    total: u32,
    /// Of these types; `None`: of any.
    types: Option<Vec<TaskType>>,
}

/// Fetches until a shutdown is asked for. A call under way is not interrupted by that: what it grants would
/// be lost.
pub(super) async fn fetch(shared: &Arc<Shared>, shutdown: &Shutdown) {
    let mut turn = 0;
    let mut retry = RETRY_MIN;
    let mut in_vain = 0;
    while !shutdown.is_asked() {
        let want = shared.want();
        if want.total == 0 || shared.paused.load(Ordering::Relaxed) {
            unless_asked(shutdown, room(shared)).await;
            continue;
        }
        match lease(shared, &want, turn).await {
            Ok(true) => {
                (retry, in_vain) = (RETRY_MIN, 0);
                // Let the handlers that were just started run, on a runtime of one thread too.
                tokio::task::yield_now().await;
            }
            Ok(false) => {
                retry = RETRY_MIN;
                unless_asked(shutdown, async {
                    in_vain = if wait(shared, &want).await { in_vain + 1 } else { 0 };
                })
                .await;
                if in_vain >= IN_VAIN_MAX {
                    // Told again and again that there is work, and given none: others are faster, or the
                    // store is wrong.
                    in_vain = 0;
                    unless_asked(shutdown, shared.pause(RETRY_MIN)).await;
                }
            }
            Err(error) => {
                tracing::warn!(worker = %shared.options.name, %error, ?retry, "no work can be fetched; trying again");
                unless_asked(shutdown, shared.pause(retry)).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
        turn += 1;
    }
}

impl Shared {
    async fn pause(&self, span: Duration) {
        self.clock.sleep_until(self.clock.monotonic().saturating_add(span)).await;
    }

    /// Free slots, and a buffer as large as what ended since the last fetch: quick handlers find their next
    /// task already there, slow ones hoard nothing. At most twice the concurrency is buffered.
    fn want(self: &Arc<Self>) -> Want {
        let mut table = self.table.lock();
        self.start_buffered(&mut table);
        let types = self.types_with_room(&table);
        let buffered = u32::try_from(table.buffer.len()).unwrap_or(u32::MAX);
        // What is left in the buffer has no slot, or is of a type that may not run now.
        let free = self.options.concurrency - table.running;
        let room = (2 * self.options.concurrency).saturating_sub(buffered);
        let ended = if self.options.ahead { table.ended_since_fetch } else { 0 };
        let total = free.saturating_add(ended).min(room).min(LEASE_BATCH_MAX);
        // A few at a time is not worth a call while handlers are busy.
        let worthwhile = free > 0 || total >= self.options.concurrency / 2;
        if !worthwhile || types.as_ref().is_some_and(Vec::is_empty) {
            return Want { free, total: 0, types };
        }
        table.ended_since_fetch = 0;
        Want { free, total, types }
    }

    /// The types to ask for. While one is at its limit, only those that are known and are not: otherwise its
    /// tasks would fill the buffer, and others could not get past them.
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

/// Asks each namespace in turn, beginning with another one each time; says whether anything came.
async fn lease(shared: &Arc<Shared>, want: &Want, turn: usize) -> Result<bool> {
    let namespaces = shared.namespaces.lock().clone();
    let (mut free, mut total) = (want.free, want.total);
    let mut found = false;
    for index in 0..namespaces.len() {
        if total == 0 {
            break;
        }
        let request = LeaseRequest {
            namespace: namespaces[(index + turn) % namespaces.len()].clone(),
            queues: shared.options.queues.clone(),
            types: want.types.clone(),
            worker: shared.options.name.clone(),
            token: (shared.options.tokens)(),
            max: total,
            slots: free,
            ttl: shared.options.ttl,
        };
        // Counted from before the request: whatever the answer's way took is already spent.
        let sent_at = shared.clock.monotonic();
        let leased = lease_again(shared, request).await?;
        let count = u32::try_from(leased.len()).unwrap_or(u32::MAX);
        found |= count > 0;
        free = free.saturating_sub(count);
        total = total.saturating_sub(count);
        if shared.clock.monotonic() < shared.valid_until(sent_at) {
            shared.accept(leased, sent_at);
        } else {
            // The answer came too late to start anything under it: the leases end by themselves.
            tracing::warn!(worker = %shared.options.name, count, "leases came too late to be used");
        }
    }
    Ok(found)
}

/// One more try under the same token if the answer got lost: it returns what the first one granted.
async fn lease_again(shared: &Shared, request: LeaseRequest) -> Result<Vec<weaver_core::lease::Leased>> {
    match shared.source.lease(request.clone()).await {
        Err(weaver_core::error::Error::Unavailable { .. }) => shared.source.lease(request).await,
        answer => answer,
    }
}

/// Waits for something, but no longer than until a shutdown is asked for.
async fn unless_asked(shutdown: &Shutdown, wait: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = shutdown.asked() => {}
        () = wait => {}
    }
}

/// Waits until there may be something to lease, or more room to put it; says whether the store spoke of work.
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
            // A worker of all namespaces that there are, when there are none.
            0 => pending().await,
            1 => waits.remove(0).await,
            _ => select_all(waits).await.0,
        };
        match first {
            Ok(wake) => wake == Wake::Ready,
            Err(error) => {
                tracing::warn!(worker = %shared.options.name, %error, "waiting for work failed");
                shared.pause(RETRY_MIN).await;
                false
            }
        }
    };
    tokio::select! {
        biased;
        spoken = work => spoken,
        () = freed(shared) => false,
    }
}

/// Waits until a slot is free, or something else about the worker has changed.
async fn room(shared: &Shared) {
    tokio::select! {
        biased;
        () = freed(shared) => {}
        () = shared.pause(shared.options.poll_every) => {}
    }
}

/// Waits for the flag. Nobody wakes us for it: whoever sets it is polled before us.
async fn freed(shared: &Shared) {
    poll_fn(|_| if shared.room.swap(false, Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}
