//! A zombie worker: replays calls much later, like a delayed packet, a retrying proxy or a paused thread.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use weaver_core::lifecycle::{self, Command, OverdueReason};
use weaver_core::queue::{Overdue, Queue};

use crate::intercept::Call;
use crate::simulation::clock::SimClock;
use crate::simulation::recorded_store::RecordedStore;
use crate::simulation::rng::Rng;

/// Collects copies of some calls of a worker.
pub(super) struct Copies {
    percent: u64,
    rng: Mutex<Rng>,
    sender: UnboundedSender<Call>,
}

impl Copies {
    /// Keeps a copy of a call with the configured probability.
    pub(super) fn keep(&self, call: impl FnOnce() -> Call) {
        if self.rng.lock().chance(self.percent) {
            // The receiver is dropped after the last fault.
            drop(self.sender.send(call()));
        }
    }
}

/// A worker that no longer exists and whose calls arrive again: fencing must refuse them.
pub(super) struct ZombieWorker {
    receiver: UnboundedReceiver<Call>,
    sender: UnboundedSender<Call>,
    clock: SimClock,
    rng: Rng,
    percent: u64,
    lease_ttl: Duration,
    faults_end: Duration,
}

impl ZombieWorker {
    pub(super) fn new(
        percent: u64,
        clock: SimClock,
        rng: Rng,
        lease_ttl: Duration,
        faults_end: Duration,
    ) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { receiver, sender, clock, rng, percent, lease_ttl, faults_end }
    }

    /// A factory of collectors, one for each life of a worker.
    pub(super) fn copies(&mut self) -> Arc<dyn Fn() -> Copies + Send + Sync> {
        let (percent, rng, sender) = (self.percent, Mutex::new(self.rng.fork()), self.sender.clone());
        Arc::new(move || Copies { percent, rng: Mutex::new(rng.lock().fork()), sender: sender.clone() })
    }

    /// Any time, and often just about when the lease expires.
    fn delay(&mut self) -> Duration {
        let ttl_ms = u64::try_from(self.lease_ttl.as_millis()).expect("a short lease");
        if self.rng.chance(50) {
            self.rng.span_ms(ttl_ms..=ttl_ms + 400)
        } else {
            self.rng.span_ms(0..=2 * ttl_ms)
        }
    }

    /// Replays the copied calls, until the last fault.
    pub(super) async fn run(mut self, line: Arc<RecordedStore>) {
        let mut calls = JoinSet::new();
        if self.percent > 0 {
            calls.spawn(sweep(self.clock, Arc::clone(&line), self.rng.fork()));
        }
        loop {
            let call = tokio::select! {
                biased;
                () = self.clock.until(self.faults_end) => return,
                call = self.receiver.recv() => call,
            };
            let Some(call) = call else { return };
            let (line, clock, delay) = (line.clone(), self.clock, self.delay());
            calls.spawn(async move {
                clock.pause(delay).await;
                // Nothing waits for the answer; what the call did is in the history.
                drop(line.call(call).await);
            });
        }
    }
}

/// Maintenance that scans for overdue leases all the time, and commits their expiry late.
async fn sweep(clock: SimClock, line: Arc<RecordedStore>, mut rng: Rng) {
    loop {
        clock.pause(rng.span_ms(20..=100)).await;
        let Ok(overdue) = line.overdue(100).await else { continue };
        clock.pause(rng.span_ms(0..=600)).await;
        let expired = overdue.into_iter().filter(|item| item.reason == OverdueReason::Lease);
        let decide = |item: Overdue| {
            lifecycle::decide(&item.record, Command::Expire(item.reason), item.record.updated_at).ok()
        };
        // A faster worker may have made these stale.
        drop(line.commit(expired.filter_map(decide).collect(), None).await);
    }
}
