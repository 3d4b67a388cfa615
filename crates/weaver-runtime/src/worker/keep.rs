//! Keeping leases: renewed every third of their time, all in one call; given up before they end if they
//! cannot be (G2).
//!
//! ```text
//! sent ────────── 1/3 ────────── 2/3 ───── 8/10 ──── 9/10 ──── end by the store's clock
//!                 renew          renew     told to   dropped
//!                                          stop
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

/// The most leases one call renews.
const BATCH_MAX: usize = 1000;

/// A renewal on its way.
type Renewing<'a> = OptionFuture<BoxFuture<'a, Answer>>;

struct Answer {
    sent_at: Monotonic,
    /// By the numbers of the tasks.
    renewed: Result<BTreeMap<u64, Renewed>>,
}

/// Renews for ever.
pub(super) async fn keep(shared: &Arc<Shared>) {
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
                if !shared.take_renewed(answer) {
                    next_renewal = next_renewal.min(shared.clock.monotonic().saturating_add(soon));
                }
            }
            () = shared.poke.notified() => next_renewal = shared.clock.monotonic(),
            () = shared.clock.sleep_until(next) => {}
        }
        let now = shared.clock.monotonic();
        shared.stop_late(now);
        if now >= next_renewal {
            // One that has not come back by now is given up: the next may get through.
            renewing = renew(shared).into();
            next_renewal = now.saturating_add(interval);
        }
    }
}

/// Renews everything in hand, in as few calls as the store allows.
fn renew(shared: &Arc<Shared>) -> Option<BoxFuture<'_, Answer>> {
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
                Err(error) => return Answer { sent_at, renewed: Err(error) },
            }
            rest = later;
        }
        Answer { sent_at, renewed: Ok(numbers.into_iter().zip(renewed).collect()) }
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

    /// Takes in what the store answered. `false`: some of it should be asked again soon.
    fn take_renewed(&self, answer: Answer) -> bool {
        let renewed = match answer.renewed {
            Ok(renewed) => renewed,
            Err(error) => {
                tracing::warn!(worker = %self.options.name, %error, "leases cannot be renewed; trying again");
                return false;
            }
        };
        let never_started = self.settle(&renewed, answer.sent_at);
        if !never_started.is_empty() {
            // Confirmed by the finisher: nothing may keep this loop from its times.
            self.never_started.lock().extend(never_started);
            self.stopped.notify_one();
            self.freed();
        }
        !renewed.values().any(|renewed| *renewed == Renewed::Busy)
    }

    /// Returns the leases of cancelled tasks that had not even started.
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

    /// When the next handler must be told to stop, or dropped.
    fn next_stop(&self) -> Option<Monotonic> {
        let table = self.table.lock();
        let buffered = table.buffer.iter().map(|buffered| buffered.valid_until);
        let started = table.started.iter().map(|(_, started)| started);
        let running = started.filter(|started| started.is_running() && !started.aborted);
        let started = running.map(|started| {
            let told = started.ctx.is_cancelled();
            let lease = if told { started.valid_until } else { self.told_at(started.valid_until) };
            started.abort_at.map_or(lease, |abort_at| abort_at.min(lease))
        });
        buffered.chain(started).min()
    }

    fn told_at(&self, valid_until: Monotonic) -> Monotonic {
        Monotonic(valid_until.0.saturating_sub(self.options.ttl / 10))
    }

    /// Stops what was not renewed in time, and what did not stop when it was told to.
    fn stop_late(&self, now: Monotonic) {
        let mut table = self.table.lock();
        let before = table.buffer.len();
        table.buffer.retain(|buffered| buffered.valid_until > now);
        let dropped = before - table.buffer.len();
        for (_, started) in table.started.iter_mut().filter(|(_, started)| started.is_running()) {
            if self.told_at(started.valid_until) <= now {
                started.ctx.stop(StopReason::LeaseLost);
            }
            if started.valid_until <= now || started.abort_at.is_some_and(|abort_at| abort_at <= now) {
                started.abort();
            }
        }
        drop(table);
        if dropped > 0 {
            tracing::warn!(worker = %self.options.name, dropped, "buffered tasks could not be renewed and are given up");
            self.freed();
        }
    }
}
