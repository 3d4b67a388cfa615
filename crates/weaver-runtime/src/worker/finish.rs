//! Reporting ends: whatever has stopped since the last report goes into one call. While one call is under way
//! the next batch gathers, so the delay is bounded by one call and batches grow with the load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use weaver_core::lease::Lease;
use weaver_core::outcome::Outcome;
use weaver_core::ports::APPEND_MAX_BYTES;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::source::{End, Ended, SharedLeased};
use crate::worker::seats::Seat;
use crate::worker::table::Done;
use crate::worker::{Shared, observe};

/// How long to wait after a report failed; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(20);
/// At most so long.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The most ends one call reports.
const BATCH_MAX: usize = 1000;

/// The most lines of a log in one append.
const LOG_LINES_PER_APPEND: usize = 1000;

/// Said of a handler that is gone for no reason we know.
const DROPPED: &str = "its handler was dropped before it finished";

/// Ends on their way to the store.
#[derive(Default)]
struct Batch {
    // Apart from what else is known of them, so that the store can be shown them as they are.
    ends: Vec<End>,
    notes: Vec<Note>,
}

/// What the worker remembers about an end until the store has taken it.
struct Note {
    seat: Seat,
    /// After that the store refuses it anyway.
    valid_until: Monotonic,
    ran_for: Duration,
}

impl Batch {
    fn push(&mut self, end: End, note: Note) {
        self.ends.push(end);
        self.notes.push(note);
    }

    /// Splits off what is more than a call may carry.
    fn split_off_rest(&mut self) -> Self {
        let len = self.ends.len().min(BATCH_MAX);
        Self { ends: self.ends.split_off(len), notes: self.notes.split_off(len) }
    }
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
        let mut cancelled = Vec::new();
        let mut batch = shared.sort_out(done, &mut stopped, &mut cancelled);
        // Slots are free: what waits in the buffer starts, even while the fetcher waits for an answer.
        shared.start_buffered(&mut shared.table.lock());
        shared.freed();
        let ended = batch.ends.iter().map(|end| &end.leased.0).chain(&cancelled);
        write_logs(shared, ended, true).await;
        while !batch.ends.is_empty() {
            let rest = batch.split_off_rest();
            report(shared, batch, &mut stopped).await;
            batch = rest;
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
    fn sort_out(&self, done: Vec<Done>, stopped: &mut Vec<Lease>, cancelled: &mut Vec<Ctx>) -> Batch {
        let now = self.clock.monotonic();
        let mut batch = Batch { ends: Vec::with_capacity(done.len()), notes: Vec::with_capacity(done.len()) };
        let mut table = self.table.lock();
        for Done { seat, outcome, told } in done {
            let Some(started) = table.stopped(seat) else { continue };
            let runs_once = started.ctx.record().spec.runs_once();
            let outcome = match (told, outcome) {
                (Some(StopReason::Cancelled), _) => {
                    stopped.push(started.lease().clone());
                    cancelled.push(started.ctx.clone());
                    self.stats.lock().cancelled_running();
                    table.started.leave(seat);
                    continue;
                }
                (told, outcome) if runs_once => only_run(told, outcome, now >= started.valid_until),
                // It was told to stop: a failure is what stopping looks like, and nothing to be charged for.
                // If the lease is lost indeed, the store refuses the report; if it is not, the task is free
                // again at once.
                (Some(_), None | Some(Outcome::Failed { .. } | Outcome::TimedOut)) => Outcome::Released,
                (_, Some(outcome)) => outcome,
                (None, None) => Outcome::failed(DROPPED),
            };
            let ran_for = now.0.saturating_sub(started.started_at.0);
            let note = Note { seat, valid_until: started.valid_until, ran_for };
            batch.push(End { leased: SharedLeased(started.ctx.clone()), outcome }, note);
        }
        batch
    }
}

/// How the only execution of a task ended that may be started once. To be cut off is its end: given back, it
/// would run a second time. And what it says after its lease has ended counts for nothing, even if nobody has
/// noticed the end yet.
fn only_run(told: Option<StopReason>, outcome: Option<Outcome>, is_late: bool) -> Outcome {
    const CUT_OFF: &str = "it may run only once, and was cut off";
    match (told, outcome) {
        _ if is_late => Outcome::failed(format!("{CUT_OFF}: its worker's lease ended while it ran")),
        (_, Some(outcome)) => outcome,
        (Some(StopReason::Shutdown), None) => Outcome::failed(format!("{CUT_OFF}: its worker was shut down")),
        (Some(_), None) => Outcome::failed(format!("{CUT_OFF}: its worker could not keep its lease")),
        (None, None) => Outcome::failed(DROPPED),
    }
}

/// What handlers logged is stored before their end is known. Best effort: a log is no reason to lose a
/// result.
pub(super) async fn write_logs<'a>(shared: &Shared, contexts: impl Iterator<Item = &'a Ctx>, is_end: bool) {
    for ctx in contexts.filter(|ctx| ctx.has_logged()) {
        // One writer at a time, so that lines stay in order.
        let _writing = ctx.log_writing().await;
        write_log(shared, ctx, is_end).await;
        if is_end && ctx.log_has_unstored() {
            // The last chance to say how many are missing.
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
            tracing::warn!(task = %ctx.key(), %error, count, "log lines were not stored");
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

/// Tells the store that handlers of cancelled tasks have stopped. If it cannot be told, the holds end with
/// the leases.
async fn confirm(shared: &Shared, stopped: Vec<Lease>) {
    if stopped.is_empty() {
        return;
    }
    if let Err(error) = shared.source.confirm_stopped(stopped).await {
        tracing::warn!(%error, "the store does not know yet that cancelled handlers have stopped");
    }
}

/// Reports a batch until the store has taken it or it is too late.
async fn report(shared: &Shared, mut batch: Batch, stopped: &mut Vec<Lease>) {
    let mut retry = RETRY_MIN;
    while !batch.ends.is_empty() {
        match shared.source.finish(&batch.ends).await {
            Ok(answers) => {
                batch = take_answers(shared, batch, &answers, stopped);
                continue;
            }
            Err(error) => {
                tracing::warn!(worker = %shared.options.name, %error, ends = batch.ends.len(), "ends cannot be reported; trying again");
            }
        }
        shared.clock.sleep_until(shared.clock.monotonic().saturating_add(retry)).await;
        retry = (retry * 2).min(RETRY_MAX);
        batch = shared.without_late(batch);
    }
}

/// Settles what the store answered; returns what must be reported again, differently.
fn take_answers(shared: &Shared, batch: Batch, answers: &[Ended], stopped: &mut Vec<Lease>) -> Batch {
    let mut again = Batch::default();
    let now = shared.clock.now();
    // One lock each for the whole batch; nothing below waits.
    let (mut table, mut stats) = (shared.table.lock(), shared.stats.lock());
    for ((mut end, note), answer) in batch.ends.into_iter().zip(batch.notes).zip(answers) {
        match answer {
            Ended::ResultTooLarge { bytes, max_bytes } => {
                let error = format!(
                    "its result is {bytes} bytes: the limit is {max_bytes}; return a reference to it"
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
                // If it was cancelled meanwhile, its hold can go: the handler has stopped.
                stopped.push(end.leased.lease.clone());
            }
        }
        table.started.leave(note.seat);
    }
    again
}

impl Shared {
    /// Gives up ends whose lease is over: whoever has the task now decides about it.
    fn without_late(&self, batch: Batch) -> Batch {
        let now = self.clock.monotonic();
        let mut rest = Batch::default();
        let mut table = self.table.lock();
        for (end, note) in batch.ends.into_iter().zip(batch.notes) {
            let renewed = table.started.get(note.seat).map(|started| started.valid_until);
            if renewed.unwrap_or(note.valid_until) > now {
                rest.push(end, note);
                continue;
            }
            observe::lost(&end.leased);
            self.stats.lock().lost();
            table.started.leave(note.seat);
        }
        rest
    }
}
