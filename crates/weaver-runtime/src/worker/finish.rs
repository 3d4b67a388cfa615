//! Reporting ends: whatever has stopped since the last report goes into one call. While one call is under way the next
//! batch gathers, so the delay is bounded by one call and batches grow with the load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weaver_core::lease::Lease;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::source::{End, Ended};
use crate::worker::table::Done;
use crate::worker::{Shared, observe};

/// How long to wait after a report failed; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
/// At most so long.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The most ends one call reports.
const BATCH_MAX: usize = 1000;

/// Lines of a log per call: each may be as long as an entry, and a call has its limit too.
const LOG_LINES_PER_CALL: usize = 16;

/// An end on its way to the store.
struct Pending {
    number: u64,
    ctx: Ctx,
    end: End,
    /// After that the store refuses it anyway.
    valid_until: Monotonic,
    ran_for: Duration,
}

/// Reports for ever.
pub(super) async fn finish(shared: &Arc<Shared>) {
    loop {
        let (done, mut stopped) = {
            let mut table = shared.table.lock();
            let taken =
                (std::mem::take(&mut *shared.done.lock()), std::mem::take(&mut *shared.never_started.lock()));
            table.reporting = !taken.0.is_empty() || !taken.1.is_empty();
            taken
        };
        if done.is_empty() && stopped.is_empty() {
            shared.idle.notify_waiters();
            shared.stopped.notified().await;
            if shared.most_still_run() {
                // Let those that are about to end do so first: one report for all of them.
                tokio::task::yield_now().await;
            }
            continue;
        }
        let pending = shared.sort_out(done, &mut stopped);
        // Slots are free: what waits in the buffer starts, even while the fetcher waits for an answer.
        shared.start_buffered(&mut shared.table.lock());
        shared.freed();
        write_logs(shared, pending.iter().map(|pending| &pending.ctx)).await;
        for batch in in_batches(pending) {
            report(shared, batch, &mut stopped).await;
        }
        confirm(shared, stopped).await;
        shared.freed();
    }
}

impl Shared {
    /// A slot, a place or the last task in hand is gone: tell those who wait for it.
    pub(crate) fn freed(&self) {
        self.room.store(true, Ordering::Relaxed);
        self.idle.notify_waiters();
    }

    fn most_still_run(&self) -> bool {
        let running = self.table.lock().running;
        self.done.lock().len() * 2 < running as usize
    }

    /// What each stopped handler means: an end to report, or a cancellation to confirm.
    fn sort_out(&self, done: Vec<Done>, stopped: &mut Vec<Lease>) -> Vec<Pending> {
        let now = self.clock.monotonic();
        let mut pending = Vec::with_capacity(done.len());
        let mut table = self.table.lock();
        for Done { number, outcome, told } in done {
            table.stopped(number);
            let Some(started) = table.started.get(&number) else { continue };
            let outcome = match (told, outcome) {
                (Some(StopReason::Cancelled), _) => {
                    stopped.push(started.leased().lease.clone());
                    self.stats.lock().cancelled_running();
                    table.started.remove(&number);
                    continue;
                }
                // It was told to stop: a failure is what stopping looks like, and nothing to be charged for. If the lease
                // is lost indeed, the store refuses the report; if it is not, the task is free again at once.
                (Some(_), None | Some(Outcome::Failed { .. } | Outcome::TimedOut)) => Outcome::Released,
                (_, Some(outcome)) => outcome,
                (None, None) => Outcome::failed("its handler was dropped before it finished"),
            };
            pending.push(Pending {
                number,
                ctx: started.ctx.clone(),
                end: End { leased: Arc::clone(started.leased()), outcome },
                valid_until: started.valid_until,
                ran_for: now.0.saturating_sub(started.started_at.0),
            });
        }
        pending
    }

    fn forget(&self, number: u64) {
        self.table.lock().started.remove(&number);
    }
}

fn in_batches(mut pending: Vec<Pending>) -> impl Iterator<Item = Vec<Pending>> {
    std::iter::from_fn(move || {
        if pending.is_empty() {
            return None;
        }
        let rest = pending.split_off(pending.len().min(BATCH_MAX));
        Some(std::mem::replace(&mut pending, rest))
    })
}

/// What handlers logged is stored before their end is known. Best effort: a log is no reason to lose a result.
pub(super) async fn write_logs<'a>(shared: &Shared, contexts: impl Iterator<Item = &'a Ctx>) {
    for ctx in contexts.filter(|ctx| ctx.has_logged()) {
        // One writer at a time, so that lines stay in order.
        let _writing = ctx.log_writing().await;
        for lines in ctx.take_log().chunks(LOG_LINES_PER_CALL) {
            if let Err(error) = shared.source.append(&ctx.log_stream(), lines, None).await {
                tracing::warn!(task = %ctx.key(), %error, "log lines are lost");
            }
        }
    }
}

/// Tells the store that handlers of cancelled tasks have stopped. If it cannot be told, the holds end with the leases.
async fn confirm(shared: &Shared, stopped: Vec<Lease>) {
    if stopped.is_empty() {
        return;
    }
    if let Err(error) = shared.source.confirm_stopped(stopped).await {
        tracing::warn!(%error, "the store does not know yet that cancelled handlers have stopped");
    }
}

/// Reports a batch until the store has taken it or it is too late.
async fn report(shared: &Shared, mut batch: Vec<Pending>, stopped: &mut Vec<Lease>) {
    let mut retry = RETRY_MIN;
    while !batch.is_empty() {
        let ends: Vec<End> = batch.iter().map(|pending| pending.end.clone()).collect();
        match shared.source.finish(&ends).await {
            Ok(answers) => {
                batch = take_answers(shared, batch, &answers, stopped);
                continue;
            }
            Err(error) => {
                tracing::warn!(worker = %shared.options.name, %error, ends = ends.len(), "ends cannot be reported; trying again");
            }
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(retry)).await;
        retry = (retry * 2).min(RETRY_MAX);
        batch = shared.without_late(batch);
    }
}

/// Settles what the store answered; returns what must be reported again, differently.
fn take_answers(
    shared: &Shared,
    batch: Vec<Pending>,
    answers: &[Ended],
    stopped: &mut Vec<Lease>,
) -> Vec<Pending> {
    let mut again = Vec::new();
    let now = shared.clock.now();
    // One lock each for the whole batch; nothing below waits.
    let (mut table, mut stats) = (shared.table.lock(), shared.stats.lock());
    for (mut pending, answer) in batch.into_iter().zip(answers) {
        match answer {
            Ended::ResultTooLarge { bytes, max_bytes } => {
                let error = format!(
                    "its result is {bytes} bytes: the limit is {max_bytes}; return a reference to it"
                );
                pending.end.outcome = Outcome::fatal(error);
                again.push(pending);
                continue;
            }
            Ended::Recorded { state, due_after } => {
                observe::ended(&pending.end, *state, *due_after, now);
                stats.ended(&pending.end, pending.ran_for);
            }
            Ended::Lost => {
                observe::lost(&pending.end.leased);
                stats.lost();
                // If it was cancelled meanwhile, its hold can go: the handler has stopped.
                stopped.push(pending.end.leased.lease.clone());
            }
        }
        table.started.remove(&pending.number);
    }
    again
}

impl Shared {
    /// Gives up ends whose lease is over: whoever has the task now decides about it.
    fn without_late(&self, batch: Vec<Pending>) -> Vec<Pending> {
        let now = self.clock.monotonic();
        let (late, rest): (Vec<_>, Vec<_>) = batch.into_iter().partition(|pending| {
            let renewed = self.table.lock().started.get(&pending.number).map(|started| started.valid_until);
            renewed.unwrap_or(pending.valid_until) <= now
        });
        for pending in late {
            observe::lost(&pending.end.leased);
            self.stats.lock().lost();
            self.forget(pending.number);
        }
        rest
    }
}
