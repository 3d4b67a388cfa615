//! Starting handlers.
//!
//! Many handlers finish in their first poll. A tokio task each would cost more than their own work: an
//! allocation, a place in the scheduler's queues, and often a thread wake-up.
//!
//! So a *starter*, itself a tokio task, gives fresh handlers their first poll, a few per turn. A handler that
//! is then pending continues as a tokio task of its own. It stays abortable: a handler can only be stopped
//! while it is pending. If most of a turn are pending, the next handlers become tasks right away; every 16th
//! batch tries the first poll again.
//!
//! A first poll may take long (a computation), and the others of its turn wait for it. So a turn is as many
//! handlers as fit into [`TURN`] at the pace of the last turn, at least one. The handlers beyond it get
//! another starter, which another thread can steal, so that long first polls run in parallel.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::AbortHandle;
use weaver_core::lease::Leased;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::execute::execute;
use crate::worker::Shared;
use crate::worker::slots::Slot;
use crate::worker::table::{Buffered, Done, Handler, Table};

/// The target length of a starter's turn: too short for a caller to notice.
const TURN: Duration = Duration::from_micros(100);
/// The most handlers in one turn.
const TURN_MAX: usize = 64;

/// While most handlers are pending after their first poll, one batch of this many tries the first poll again.
const FIRST_POLL_RETRY_EVERY: u32 = 16;

/// Handlers before their first poll, and the pace of the starters.
pub(crate) struct Fresh {
    waiting: VecDeque<(Slot, Ctx)>,
    /// Handlers per turn.
    per_turn: usize,
    /// Whether most handlers of the last turn were pending.
    most_wait: bool,
    batches: u32,
}

impl Default for Fresh {
    fn default() -> Self {
        // Until the pace is known, each first poll may be a long one.
        Self { waiting: VecDeque::new(), per_turn: 1, most_wait: false, batches: 0 }
    }
}

impl Fresh {
    /// Whether the next batch's handlers become tasks without a first poll.
    fn skips_first_poll(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        self.most_wait && !self.batches.is_multiple_of(FIRST_POLL_RETRY_EVERY)
    }
}

impl Shared {
    /// As [`accept`](Self::accept), unless it is too late to start anything under these leases: then they
    /// expire.
    pub(super) fn accept_in_time(self: &Arc<Self>, leased: Vec<Leased>, sent_at: Monotonic) {
        if self.clock.monotonic() < self.valid_until(sent_at) {
            return self.accept(leased, sent_at);
        }
        let count = leased.len();
        tracing::warn!(worker = %self.options.name, count, "leases arrived too late to be used");
    }

    /// Buffers newly leased tasks and starts as many as there are free slots, or releases them if the worker
    /// drains. Fragile ones go first: the request limited them to the number of free slots, and they must not
    /// wait in the buffer.
    fn accept(self: &Arc<Self>, leased: Vec<Leased>, sent_at: Monotonic) {
        let valid_until = self.valid_until(sent_at);
        let mut table = self.table.lock();
        let mut fragile = 0;
        for leased in leased {
            let (number, is_fragile) = (table.number(), leased.record.is_fragile());
            let ctx = Ctx::new(leased, Arc::clone(&self.env));
            let buffered = Buffered { number, ctx, valid_until };
            if is_fragile {
                table.buffer.insert(fragile, buffered);
                fragile += 1;
            } else {
                table.buffer.push_back(buffered);
            }
        }
        if self.leasing.is_over() {
            drop(table);
            return self.release_buffer();
        }
        self.start_buffered(&mut table);
        drop(table);
        if self.clock.monotonic() > sent_at.saturating_add(self.options.ttl / 10) {
            // The response was slow: these leases cannot wait for the next renewal.
            self.renew_now.notify_one();
        }
    }

    /// Starts buffered tasks, as many as there are free slots.
    pub(crate) fn start_buffered(self: &Arc<Self>, table: &mut Table) {
        if table.buffer.is_empty() || table.running >= self.options.concurrency {
            return;
        }
        let started_at = self.clock.monotonic();
        let mut fresh = self.fresh.lock();
        let skips_first_poll = fresh.skips_first_poll();
        while table.running < self.options.concurrency
            && let Some(buffered) = table.next_startable(self)
        {
            table.running += 1;
            let task_type = &buffered.ctx.record().spec.envelope.task_type;
            if self.options.type_limits.iter().any(|(limited, _)| limited == task_type) {
                *table.running_of_type.entry(task_type.clone()).or_default() += 1;
            }
            let ctx = buffered.ctx.clone();
            let slot = table.start(buffered, started_at, Handler::Beginning);
            if !skips_first_poll {
                fresh.waiting.push_back((slot, ctx));
                continue;
            }
            let task = spawn(run(Report::new(self, slot, ctx)));
            if let Some(started) = table.started.get_mut(slot) {
                started.handler = Handler::Waiting(task);
            }
        }
        let has_fresh = !fresh.waiting.is_empty();
        drop(fresh);
        if has_fresh {
            self.spawn_starter();
        }
    }

    /// Releases tasks that were leased and not started.
    pub(crate) fn release_buffer(self: &Arc<Self>) {
        let mut table = self.table.lock();
        let buffered: Vec<_> = table.buffer.drain(..).collect();
        let started_at = self.clock.monotonic();
        for buffered in buffered {
            let slot = table.start(buffered, started_at, Handler::Stopped);
            self.done.lock().push(Done { slot, outcome: Some(Outcome::Released), stop_reason: None });
        }
        drop(table);
        self.stopped.notify_one();
        self.freed();
    }

    /// Signals every handler to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        let table = self.table.lock();
        let running = table.started.iter().filter(|(_, started)| started.is_running());
        running.for_each(|(_, started)| started.ctx.stop(reason));
    }

    /// Drops every handler at its next `.await`.
    pub(crate) fn abort_all(&self) {
        self.table.lock().started.iter_mut().for_each(|(_, started)| started.abort());
    }

    #[expect(clippy::disallowed_methods, reason = "a starter ends with its turn")]
    fn spawn_starter(self: &Arc<Self>) {
        drop(tokio::spawn(start_fresh(Arc::clone(self))));
    }

    /// Takes the handlers of a turn; returns whether others remain.
    fn next_turn(&self, turn: &mut Vec<(Slot, Ctx)>) -> bool {
        let mut fresh = self.fresh.lock();
        let count = fresh.per_turn.min(fresh.waiting.len());
        turn.extend(fresh.waiting.drain(..count));
        !fresh.waiting.is_empty()
    }

    /// Hands the ended handlers of a turn to the finisher, and sets the pace of the next turn.
    fn turn_over(&self, ended: &mut Vec<Done>, begun: usize, took: Duration) {
        let per_handler = took / u32::try_from(begun).unwrap_or(1).max(1);
        let fits = TURN.as_nanos() / per_handler.as_nanos().max(1);
        let mut fresh = self.fresh.lock();
        fresh.per_turn = usize::try_from(fits).unwrap_or(TURN_MAX).clamp(1, TURN_MAX);
        fresh.most_wait = ended.len() * 2 < begun;
        drop(fresh);
        if !ended.is_empty() {
            self.done.lock().append(ended);
            self.stopped.notify_one();
        }
    }

    /// A handler is pending: it becomes a tokio task of its own.
    fn continue_as_task(&self, slot: Slot, work: Work) {
        // Spawned without the lock: spawning may wake a thread.
        let task = spawn(work);
        let mut table = self.table.lock();
        // It may have ended already, or have been aborted before there was a task to abort.
        let started = table.started.get_mut(slot).filter(|started| started.is_running());
        if let Some(started) = started {
            if started.aborted {
                task.abort();
            }
            started.handler = Handler::Waiting(task);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "handlers become tasks here and nowhere else, and are aborted in `abort_all`"
)]
fn spawn(work: impl Future<Output = Report> + Send + 'static) -> AbortHandle {
    tokio::spawn(async { drop(work.await) }).abort_handle()
}

/// A running handler. It returns its report when it is done; dropped, the report is made by `Drop`.
type Work = Pin<Box<dyn Future<Output = Report> + Send>>;

/// Polls the handlers of one turn.
async fn start_fresh(shared: Arc<Shared>) {
    let (mut turn, mut ended) = (Vec::new(), Vec::new());
    if shared.next_turn(&mut turn) {
        shared.spawn_starter();
        requeue().await;
    }
    if turn.is_empty() {
        return;
    }
    let (begun, since) = (turn.len(), shared.clock.monotonic());
    let mut allocation = None;
    poll_fn(|task| {
        let begin = |(slot, ctx)| begin(&shared, slot, ctx, run, &mut allocation, task);
        ended.extend(turn.drain(..).filter_map(begin));
        Poll::Ready(())
    })
    .await;
    shared.turn_over(&mut ended, begun, shared.clock.monotonic().0.saturating_sub(since.0));
}

/// Moves this task to the end of the thread's run queue, where other threads can steal it. The starter that
/// was just spawned is in the LIFO slot, where they cannot, and would wait for this turn: so it goes first.
/// (`yield_now` would wait until the thread has nothing else to do.)
async fn requeue() {
    let mut was_requeued = false;
    poll_fn(|task| {
        if std::mem::replace(&mut was_requeued, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The first poll of a handler; returns its outcome if it was ready. The starter survives any handler: a
/// panic of the handler is caught where it is run, and a panic while its future is dropped is caught here.
///
/// A handler that was ready leaves its boxed future's allocation to the next one of the turn.
fn begin<Run: Future<Output = Report> + Send + 'static>(
    shared: &Arc<Shared>,
    slot: Slot,
    ctx: Ctx,
    run: fn(Report) -> Run,
    allocation: &mut Option<Pin<Box<Run>>>,
    task: &mut Context<'_>,
) -> Option<Done> {
    let first_poll = AssertUnwindSafe(|| {
        let is_aborted = ctx.is_aborted();
        let report = Report::new(shared, slot, ctx);
        if is_aborted {
            return None;
        }
        let mut work = match allocation.take() {
            Some(mut work) => {
                work.set(run(report));
                work
            }
            None => Box::pin(run(report)),
        };
        match work.as_mut().poll(task) {
            Poll::Ready(report) => {
                *allocation = Some(work);
                Some(report.into_done())
            }
            Poll::Pending => {
                shared.continue_as_task(slot, work);
                None
            }
        }
    });
    std::panic::catch_unwind(first_poll).unwrap_or_else(|_| {
        tracing::warn!(number = slot.number, "a handler's future panicked while it was dropped");
        None
    })
}

/// Runs one handler until it returns, times out or is aborted.
async fn run(mut report: Report) -> Report {
    let Report { shared, ctx, .. } = &report;
    let span = super::observe::span(ctx);
    let work = tracing::Instrument::instrument(execute(&shared.registry, ctx), span);
    let outcome = match ctx.deadline() {
        None => work.await,
        Some(deadline) => tokio::select! {
            biased;
            outcome = work => outcome,
            () = shared.clock.sleep_until(deadline) => Outcome::TimedOut,
        },
    };
    report.outcome = Some(outcome);
    report
}

/// Reports that a handler has stopped, however it did: its `Drop` runs when the tokio task is aborted. So no
/// task stays Running because its handler was aborted.
struct Report {
    shared: Arc<Shared>,
    ctx: Ctx,
    slot: Slot,
    outcome: Option<Outcome>,
    is_reported: bool,
}

impl Report {
    fn new(shared: &Arc<Shared>, slot: Slot, ctx: Ctx) -> Self {
        Self { shared: Arc::clone(shared), ctx, slot, outcome: None, is_reported: false }
    }

    /// Leaves the reporting to the caller.
    fn into_done(mut self) -> Done {
        self.is_reported = true;
        self.take_done()
    }

    fn take_done(&mut self) -> Done {
        Done { slot: self.slot, outcome: self.outcome.take(), stop_reason: self.ctx.stop_reason() }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if self.is_reported {
            return;
        }
        let done = self.take_done();
        let mut all = self.shared.done.lock();
        all.push(done);
        // Only the first one notifies the finisher, which takes them all.
        let is_first = all.len() == 1;
        drop(all);
        if is_first {
            self.shared.stopped.notify_one();
        }
    }
}
