//! Reporting outcomes, batched like a group commit: all handlers that stopped since the last report go into
//! one call. While a call is in flight the next batch gathers, so the delay is bounded by one call and
//! batches grow with the load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Error;
use weaver_core::lease::{Lease, LeaseRequest};
use weaver_core::outcome::Outcome;
use weaver_core::ports::APPEND_MAX_BYTES;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::source::{End, Ended, SharedLeased};
use crate::worker::slots::Slot;
use crate::worker::table::Done;
use crate::worker::{Shared, observe};

/// First backoff after a failed report; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Outcomes per call.
const BATCH_MAX: usize = 1000;

/// Log lines per append.
const LOG_LINES_PER_APPEND: usize = 1000;

/// The error of a handler that was dropped without a stop signal.
const DROPPED: &str = "the handler was dropped before it finished";

#[derive(Default)]
struct Batch {
    // Apart from the notes: the source takes a slice of ends.
    ends: Vec<End>,
    notes: Vec<Note>,
}

/// What the worker remembers about an outcome until the store has recorded it.
struct Note {
    slot: Slot,
    /// After that the store refuses the outcome.
    valid_until: Monotonic,
    ran_for: Duration,
}

impl Batch {
    fn push(&mut self, end: End, note: Note) {
        self.ends.push(end);
        self.notes.push(note);
    }

    /// Splits off what exceeds one call.
    fn split_off_rest(&mut self) -> Self {
        let len = self.ends.len().min(BATCH_MAX);
        Self { ends: self.ends.split_off(len), notes: self.notes.split_off(len) }
    }
}

/// Never returns.
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
                // Let the handlers that are about to end do so first: one report for all.
                tokio::task::yield_now().await;
            }
            continue;
        }
        let mut cancelled = Vec::new();
        let mut batch = shared.classify(done, &mut stopped, &mut cancelled);
        // Slots are free: buffered tasks start even while a lease request is in flight.
        shared.start_buffered(&mut shared.table.lock());
        shared.freed();
        let ended = batch.ends.iter().map(|end| &end.leased.0).chain(&cancelled);
        write_logs(shared, ended, true).await;
        while !batch.ends.is_empty() {
            let rest = batch.split_off_rest();
            if rest.ends.is_empty()
                && let Some(request) = shared.request_with_report()
            {
                batch = report_and_lease(shared, batch, request, &mut stopped).await;
            }
            report(shared, batch, &mut stopped).await;
            batch = rest;
        }
        confirm(shared, stopped).await;
        shared.freed();
    }
}

impl Shared {
    /// A slot, a place in the buffer or the last held task was freed: wakes the fetcher and the shutdown.
    pub(crate) fn freed(&self) {
        self.room.store(true, Ordering::Relaxed);
        self.idle.notify_waiters();
    }

    fn most_still_run(&self) -> bool {
        let running = self.table.lock().running;
        self.done.lock().len() * 2 < running as usize
    }

    /// Each stopped handler becomes an outcome to report, or a cancellation to confirm.
    fn classify(&self, done: Vec<Done>, stopped: &mut Vec<Lease>, cancelled: &mut Vec<Ctx>) -> Batch {
        let now = self.clock.monotonic();
        let mut batch = Batch { ends: Vec::with_capacity(done.len()), notes: Vec::with_capacity(done.len()) };
        let mut table = self.table.lock();
        for Done { slot, outcome, stop_reason } in done {
            let Some(started) = table.stopped(slot) else { continue };
            let runs_once = started.ctx.record().spec.runs_once();
            let outcome = match (stop_reason, outcome) {
                (Some(StopReason::Cancelled), _) => {
                    stopped.push(started.lease().clone());
                    cancelled.push(started.ctx.clone());
                    self.stats.lock().cancelled_running();
                    table.started.release(slot);
                    continue;
                }
                (stop_reason, outcome) if runs_once => {
                    once_outcome(stop_reason, outcome, now >= started.valid_until)
                }
                // It was signalled to stop: a failure then is not counted. If the lease is lost, the store
                // refuses the report; if it is not, the task can be leased again at once.
                (Some(_), None | Some(Outcome::Failed { .. } | Outcome::TimedOut)) => Outcome::Released,
                (_, Some(outcome)) => outcome,
                (None, None) => Outcome::failed(DROPPED),
            };
            let ran_for = now.0.saturating_sub(started.started_at.0);
            let note = Note { slot, valid_until: started.valid_until, ran_for };
            batch.push(End { leased: SharedLeased(started.ctx.clone()), outcome }, note);
        }
        batch
    }
}

/// The outcome of a task that may run only once. An interrupted attempt fails: released, the task would run a
/// second time. An outcome after the lease has expired does not count, even if the store has not expired it
/// yet.
fn once_outcome(stop_reason: Option<StopReason>, outcome: Option<Outcome>, is_late: bool) -> Outcome {
    const INTERRUPTED: &str = "the only attempt was interrupted";
    match (stop_reason, outcome) {
        _ if is_late => Outcome::failed(format!("{INTERRUPTED}: its lease expired while it ran")),
        (_, Some(outcome)) => outcome,
        (Some(StopReason::Shutdown), None) => {
            Outcome::failed(format!("{INTERRUPTED}: the worker was shut down"))
        }
        (Some(_), None) => Outcome::failed(format!("{INTERRUPTED}: the worker could not renew its lease")),
        (None, None) => Outcome::failed(DROPPED),
    }
}

/// Stores attempt logs before the outcome is reported. Best effort: a log failure must not lose a result.
pub(super) async fn write_logs<'a>(shared: &Shared, contexts: impl Iterator<Item = &'a Ctx>, is_end: bool) {
    for ctx in contexts.filter(|ctx| ctx.has_logged()) {
        // One writer at a time, so that lines stay in order.
        let _writing = ctx.log_writing().await;
        write_log(shared, ctx, is_end).await;
        if is_end && ctx.log_has_unstored() {
            // The last append of this attempt: it says how many lines are missing.
            write_log(shared, ctx, is_end).await;
        }
    }
}

async fn write_log(shared: &Shared, ctx: &Ctx, is_end: bool) {
    let lines = ctx.take_log(is_end);
    for lines in appends(&lines) {
        if let Err(error) =
            shared.source.append(&ctx.log_stream(), lines, Some(&ctx.leased().lease), None).await
        {
            let count = lines.len();
            tracing::warn!(task = %ctx.key(), %error, count, "storing log lines failed");
            ctx.log_not_stored(count, error.to_string());
        }
    }
}

/// Lines in as few appends as their limits allow.
pub(crate) fn appends(mut lines: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            bytes += line.len();
            bytes <= APPEND_MAX_BYTES
        };
        let count = lines.iter().take(LOG_LINES_PER_APPEND).take_while(fits).count();
        let (now, later) = lines.split_at(count);
        lines = later;
        (!now.is_empty()).then_some(now)
    })
}

/// Ends the cancellation holds of tasks whose handler has stopped. If the call fails, the holds end with the
/// leases.
async fn confirm(shared: &Shared, stopped: Vec<Lease>) {
    if stopped.is_empty() {
        return;
    }
    if let Err(error) = shared.source.confirm_stopped(stopped).await {
        tracing::warn!(%error, "confirming stopped handlers failed; their holds end with their leases");
    }
}

/// Reports a batch and leases in the same call; returns what is still to be reported. If the answer is lost,
/// the call is made once more: then the leases that it was granted are known.
async fn report_and_lease(
    shared: &Arc<Shared>,
    batch: Batch,
    request: LeaseRequest,
    stopped: &mut Vec<Lease>,
) -> Batch {
    let sent_at = shared.clock.monotonic();
    let mut answer = shared.source.finish_and_lease(&batch.ends, request.clone()).await;
    if matches!(answer, Err(Error::Unavailable { .. })) {
        answer = shared.source.finish_and_lease(&batch.ends, request).await;
    }
    match answer {
        Ok((ended, leased)) => {
            let again = apply_answers(shared, batch, &ended, stopped);
            shared.leased_with_report(leased, sent_at);
            again
        }
        Err(error) => {
            let (worker, ends) = (&shared.options.name, batch.ends.len());
            tracing::warn!(%worker, %error, ends, "reporting outcomes failed; retrying");
            shared.leasing_done();
            batch
        }
    }
}

/// Reports a batch until the store has recorded it or its leases have expired.
async fn report(shared: &Shared, mut batch: Batch, stopped: &mut Vec<Lease>) {
    let mut retry = RETRY_MIN;
    while !batch.ends.is_empty() {
        match shared.source.finish(&batch.ends).await {
            Ok(answers) => {
                batch = apply_answers(shared, batch, &answers, stopped);
                continue;
            }
            Err(error) => {
                let (worker, ends) = (&shared.options.name, batch.ends.len());
                tracing::warn!(%worker, %error, ends, "reporting outcomes failed; retrying");
            }
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(retry)).await;
        retry = (retry * 2).min(RETRY_MAX);
        batch = shared.without_expired(batch);
    }
}

/// Applies the store's answers; returns what must be reported again with another outcome.
fn apply_answers(shared: &Shared, batch: Batch, answers: &[Ended], stopped: &mut Vec<Lease>) -> Batch {
    let mut again = Batch::default();
    let now = shared.clock.now();
    // One lock each for the whole batch; nothing below waits.
    let (mut table, mut stats) = (shared.table.lock(), shared.stats.lock());
    for ((mut end, note), answer) in batch.ends.into_iter().zip(batch.notes).zip(answers) {
        match answer {
            Ended::ResultTooLarge { bytes, max_bytes } => {
                let error = format!(
                    "the result has {bytes} bytes, the limit is {max_bytes}: return a reference to it"
                );
                end.outcome = Outcome::fatal(error);
                again.push(end, note);
                continue;
            }
            Ended::Recorded { state, due_after } => {
                observe::ended(&end, *state, *due_after, now);
                stats.ended(&end, *state, note.ran_for);
            }
            Ended::Lost => {
                observe::lost(&end.leased);
                stats.lost();
                // If it was cancelled meanwhile, its cancellation hold can end: the handler has stopped.
                stopped.push(end.leased.lease.clone());
            }
        }
        table.started.release(note.slot);
    }
    again
}

impl Shared {
    /// Drops outcomes whose lease has expired: the store would refuse them (fencing).
    fn without_expired(&self, batch: Batch) -> Batch {
        let now = self.clock.monotonic();
        let mut rest = Batch::default();
        let mut table = self.table.lock();
        for (end, note) in batch.ends.into_iter().zip(batch.notes) {
            let renewed = table.started.get(note.slot).map(|started| started.valid_until);
            if renewed.unwrap_or(note.valid_until) > now {
                rest.push(end, note);
                continue;
            }
            observe::lost(&end.leased);
            self.stats.lock().lost();
            table.started.release(note.slot);
        }
        rest
    }
}
