//! Lease renewal: every third of the TTL, all leases in one call. A lease that cannot be renewed is given up
//! before the store expires it (G2).
//!
//! ```text
//! sent ────────── 1/3 ────────── 2/3 ───── 8/10 ──── 9/10 ──── lease expiry by the store's clock
//!                 renew          renew     stop      handler
//!                                          signal    dropped
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use weaver_core::error::Result;
use weaver_core::lease::{Lease, Renewal, Renewed};
use weaver_core::time::Monotonic;

use crate::ctx::StopReason;
use crate::worker::Shared;

/// Leases per renewal call.
const BATCH_MAX: usize = 1000;

/// A renewal in flight.
type Renewing<'a> = OptionFuture<BoxFuture<'a, RenewalResult>>;

struct RenewalResult {
    sent_at: Monotonic,
    /// By task number.
    renewed: Result<BTreeMap<u64, Renewed>>,
}

/// Never returns.
pub(super) async fn renew_leases(shared: &Arc<Shared>) {
    let interval = shared.options.ttl / 3;
    let soon = (shared.options.ttl / 10).max(Duration::from_millis(1));
    let mut next_renewal = shared.clock.monotonic().saturating_add(interval);
    let mut renewing: Renewing<'_> = None.into();
    loop {
        let next = shared.next_stop().map_or(next_renewal, |stop| stop.min(next_renewal));
        tokio::select! {
            biased;
            Some(answer) = &mut renewing => {
                renewing = None.into();
                if !shared.apply_renewals(answer) {
                    next_renewal = next_renewal.min(shared.clock.monotonic().saturating_add(soon));
                }
            }
            () = shared.renew_now.notified() => next_renewal = shared.clock.monotonic(),
            () = shared.clock.sleep_until(next) => {}
        }
        let now = shared.clock.monotonic();
        shared.stop_overdue(now);
        if now >= next_renewal {
            // A renewal still in flight is dropped: the next may get through.
            renewing = renew_held(shared).into();
            next_renewal = now.saturating_add(interval);
        }
    }
}

/// Renews all held leases, in as few calls as the store allows.
fn renew_held(shared: &Arc<Shared>) -> Option<BoxFuture<'_, RenewalResult>> {
    let (numbers, mut rest) = shared.renewals();
    if rest.is_empty() {
        return None;
    }
    let sent_at = shared.clock.monotonic();
    let calls = async move {
        let mut renewed = Vec::with_capacity(numbers.len());
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(BATCH_MAX));
            match shared.source.renew(rest).await {
                Ok(answers) => renewed.extend(answers),
                Err(error) => return RenewalResult { sent_at, renewed: Err(error) },
            }
            rest = later;
        }
        RenewalResult { sent_at, renewed: Ok(numbers.into_iter().zip(renewed).collect()) }
    };
    Some(calls.boxed())
}

impl Shared {
    fn renewals(&self) -> (Vec<u64>, Vec<Renewal>) {
        let table = self.table.lock();
        let buffered = table
            .buffer
            .iter()
            .map(|buffered| (buffered.number, Renewal::of(buffered.ctx.leased().lease.clone())));
        let started = table.started.iter().map(|(number, started)| {
            let lease = started.lease().clone();
            (number, Renewal { progress: started.ctx.take_progress(), ..Renewal::of(lease) })
        });
        buffered.chain(started).unzip()
    }

    /// Applies the store's answer. `false`: renew again soon.
    fn apply_renewals(&self, answer: RenewalResult) -> bool {
        let renewed = match answer.renewed {
            Ok(renewed) => renewed,
            Err(error) => {
                tracing::warn!(worker = %self.options.name, %error, "lease renewal failed; retrying");
                return false;
            }
        };
        let never_started = self.settle(&renewed, answer.sent_at);
        if !never_started.is_empty() {
            // Confirmed by the finisher: a store call here would delay this loop's deadlines.
            self.never_started.lock().extend(never_started);
            self.stopped.notify_one();
            self.freed();
        }
        !renewed.values().any(|renewed| *renewed == Renewed::Busy)
    }

    /// Returns the leases of cancelled tasks whose handler had not started.
    fn settle(&self, renewed: &BTreeMap<u64, Renewed>, sent_at: Monotonic) -> Vec<Lease> {
        let valid_until = self.valid_until(sent_at);
        let abort_at = self.clock.monotonic().saturating_add(self.options.stop_grace);
        let mut never_started = Vec::new();
        let mut table = self.table.lock();
        table.buffer.retain_mut(|buffered| match renewed.get(&buffered.number) {
            Some(Renewed::Extended) => {
                buffered.valid_until = valid_until;
                true
            }
            Some(Renewed::Busy) | None => true,
            Some(Renewed::Cancelled) => {
                never_started.push(buffered.ctx.leased().lease.clone());
                false
            }
            Some(Renewed::Lost) => false,
        });
        for (number, started) in table.started.iter_mut() {
            let Some(renewed) = renewed.get(&number) else { continue };
            match renewed {
                Renewed::Extended => started.valid_until = valid_until,
                Renewed::Busy => {}
                Renewed::Cancelled => {
                    started.ctx.stop(StopReason::Cancelled);
                    started.abort_at.get_or_insert(abort_at);
                }
                Renewed::Lost => {
                    started.ctx.stop(StopReason::LeaseLost);
                    started.abort();
                }
            }
        }
        never_started
    }

    /// When the next handler must be signalled to stop, or dropped.
    fn next_stop(&self) -> Option<Monotonic> {
        let table = self.table.lock();
        let buffered = table.buffer.iter().map(|buffered| buffered.valid_until);
        let started = table.started.iter().map(|(_, started)| started);
        let running = started.filter(|started| started.is_running() && !started.aborted);
        let started = running.map(|started| {
            let is_stopping = started.ctx.is_cancelled();
            let lease = if is_stopping { started.valid_until } else { self.stop_at(started.valid_until) };
            started.abort_at.map_or(lease, |abort_at| abort_at.min(lease))
        });
        buffered.chain(started).min()
    }

    fn stop_at(&self, valid_until: Monotonic) -> Monotonic {
        Monotonic(valid_until.0.saturating_sub(self.options.ttl / 10))
    }

    /// Signals handlers whose lease was not renewed in time, and drops those that ignored the signal.
    fn stop_overdue(&self, now: Monotonic) {
        let mut table = self.table.lock();
        let before = table.buffer.len();
        table.buffer.retain(|buffered| buffered.valid_until > now);
        let dropped = before - table.buffer.len();
        for (_, started) in table.started.iter_mut().filter(|(_, started)| started.is_running()) {
            if self.stop_at(started.valid_until) <= now {
                started.ctx.stop(StopReason::LeaseLost);
            }
            if started.valid_until <= now || started.abort_at.is_some_and(|abort_at| abort_at <= now) {
                started.abort();
            }
        }
        drop(table);
        if dropped > 0 {
            let worker = &self.options.name;
            tracing::warn!(%worker, dropped, "buffered tasks dropped: their leases were not renewed in time");
            self.freed();
        }
    }
}
