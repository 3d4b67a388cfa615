//! Starting handlers.
//!
//! Many handlers are done the first time they are polled, and a tokio task each would cost them more than
//! their own work: an allocation, a place in the scheduler's lists, and often a sleeping thread woken. So
//! a *starter*, itself a tokio task, gives fresh handlers their first poll, a few in one turn; one that has
//! to wait goes on as a tokio task of its own. Nothing is lost by that: a handler can only be stopped while
//! it waits, and then it is such a task. If most of a turn have to wait, the next ones become tasks right
//! away; once in a while it is tried again.
//!
//! A first poll may take long (a computation), and then the others of its turn wait for it. So a turn is as
//! many handlers as fit into [`TURN`] at the pace of the last one: if they take longer than that, one. What a
//! starter leaves behind is another's, which another thread can take; so long first polls run beside each
//! other, as tasks would.

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
use crate::worker::seats::Seat;
use crate::worker::table::{Buffered, Done, Handler, Table};

/// How long a starter's turn should last: little beside everything a caller can notice.
const TURN: Duration = Duration::from_micros(100);
/// The most handlers in one turn.
const TURN_MAX: usize = 64;

/// While handlers have to wait, one of so many batches tries again whether they end with their first poll.
const TRIED_AGAIN: u32 = 16;

/// Handlers that are yet to begin, and those who begin them.
pub(crate) struct Fresh {
    waiting: VecDeque<(Seat, Ctx)>,
    /// How many of them may begin in one turn.
    per_turn: usize,
    /// Whether most of the last turn had to wait.
    most_wait: bool,
    batches: u32,
}

impl Default for Fresh {
    fn default() -> Self {
        // Until something is known about the handlers, each may be a long one.
        Self { waiting: VecDeque::new(), per_turn: 1, most_wait: false, batches: 0 }
    }
}

impl Fresh {
    /// Whether the next batch's handlers become tasks without a first poll.
    fn skips_first_poll(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        self.most_wait && !self.batches.is_multiple_of(TRIED_AGAIN)
    }
}

impl Shared {
    /// Puts newly leased tasks into the buffer and starts as many as there are slots. Fragile ones go first:
    /// they were asked for by the number of free slots, and must not wait beside others.
    pub(crate) fn accept(self: &Arc<Self>, leased: Vec<Leased>, sent_at: Monotonic) {
        let valid_until = self.valid_until(sent_at);
        let mut table = self.table.lock();
        let mut fragile = 0;
        for leased in leased {
            let (number, is_fragile) = (table.number(), leased.record.is_fragile());
            let ctx = Ctx::new(leased, Arc::clone(&self.surroundings));
            let buffered = Buffered { number, ctx, valid_until };
            if is_fragile {
                table.buffer.insert(fragile, buffered);
                fragile += 1;
            } else {
                table.buffer.push_back(buffered);
            }
        }
        self.start_buffered(&mut table);
        drop(table);
        if self.clock.monotonic() > sent_at.saturating_add(self.options.ttl / 10) {
            // The answer was long on its way: these leases cannot wait for the next round of renewals.
            self.poke.notify_one();
        }
    }

    /// Starts what waits in the buffer, as far as there are slots.
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
            let seat = table.start(buffered, started_at, Handler::Beginning);
            if !skips_first_poll {
                fresh.waiting.push_back((seat, ctx));
                continue;
            }
            let task = spawn(run(Report::new(self, seat, ctx)));
            if let Some(started) = table.started.get_mut(seat) {
                started.handler = Handler::Waiting(task);
            }
        }
        let has_fresh = !fresh.waiting.is_empty();
        drop(fresh);
        if has_fresh {
            self.spawn_starter();
        }
    }

    /// Gives back what was leased and not started.
    pub(crate) fn give_back_buffer(self: &Arc<Self>) {
        let mut table = self.table.lock();
        let buffered: Vec<_> = table.buffer.drain(..).collect();
        let started_at = self.clock.monotonic();
        for buffered in buffered {
            let seat = table.start(buffered, started_at, Handler::Stopped);
            self.done.lock().push(Done { seat, outcome: Some(Outcome::Released), told: None });
        }
        drop(table);
        self.stopped.notify_one();
        self.freed();
    }

    /// Tells every handler to stop.
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

    /// Takes the handlers of a turn; says whether it left others behind.
    fn next_turn(&self, turn: &mut Vec<(Seat, Ctx)>) -> bool {
        let mut fresh = self.fresh.lock();
        let count = fresh.per_turn.min(fresh.waiting.len());
        turn.extend(fresh.waiting.drain(..count));
        !fresh.waiting.is_empty()
    }

    /// Announces how a turn went: its ends all at once, and its pace for the next.
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

    /// A handler has to wait: from now on it is a tokio task of its own.
    fn go_on(&self, seat: Seat, work: Work) {
        // Spawned without the lock: the scheduler may wake a thread for it.
        let task = spawn(work);
        let mut table = self.table.lock();
        // It may have ended already, or have been aborted before there was a task to abort.
        let started = table.started.get_mut(seat).filter(|started| started.is_running());
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

/// A handler at work. It gives its report back when it is done; dropped, the report is made by itself.
type Work = Pin<Box<dyn Future<Output = Report> + Send>>;

/// Begins the handlers of one turn.
async fn start_fresh(shared: Arc<Shared>) {
    let (mut turn, mut ended) = (Vec::new(), Vec::new());
    if shared.next_turn(&mut turn) {
        shared.spawn_starter();
        give_way().await;
    }
    if turn.is_empty() {
        return;
    }
    let (begun, since) = (turn.len(), shared.clock.monotonic());
    let mut desk = None;
    poll_fn(|task| {
        let begin = |(seat, ctx)| begin(&shared, seat, ctx, run, &mut desk, task);
        ended.extend(turn.drain(..).filter_map(begin));
        Poll::Ready(())
    })
    .await;
    shared.turn_over(&mut ended, begun, shared.clock.monotonic().0.saturating_sub(since.0));
}

/// Goes to the end of the thread's queue, where other threads can take it. What was just spawned is in the
/// one place where they cannot, and would wait for this turn however long it takes: so it goes first.
/// (`yield_now` would wait until the thread has nothing else to do.)
async fn give_way() {
    let mut has_given_way = false;
    poll_fn(|task| {
        if std::mem::replace(&mut has_given_way, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The first poll of a handler; returns its end, if that was all. Whatever it does, the starter goes on: a
/// panic of the handler itself is caught where it is run, and one of what it leaves behind is caught here.
///
/// It happens at a desk, which a handler that is done leaves to the next of the turn: an allocation less for
/// each.
fn begin<Run: Future<Output = Report> + Send + 'static>(
    shared: &Arc<Shared>,
    seat: Seat,
    ctx: Ctx,
    run: fn(Report) -> Run,
    desk: &mut Option<Pin<Box<Run>>>,
    task: &mut Context<'_>,
) -> Option<Done> {
    let first_poll = AssertUnwindSafe(|| {
        let is_aborted = ctx.is_aborted();
        let report = Report::new(shared, seat, ctx);
        if is_aborted {
            return None;
        }
        let mut work = match desk.take() {
            Some(mut work) => {
                work.set(run(report));
                work
            }
            None => Box::pin(run(report)),
        };
        match work.as_mut().poll(task) {
            Poll::Ready(report) => {
                *desk = Some(work);
                Some(report.make())
            }
            Poll::Pending => {
                shared.go_on(seat, work);
                None
            }
        }
    });
    std::panic::catch_unwind(first_poll).unwrap_or_else(|_| {
        tracing::warn!(number = seat.number, "what a handler left behind panicked when it was dropped");
        None
    })
}

/// Runs one handler to its end, its timeout, or its abortion.
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

/// Reports that a handler has stopped, whatever stopped it: dropped with its task, it cannot be forgotten.
/// That is why no task stays Running because its handler was aborted.
struct Report {
    shared: Arc<Shared>,
    ctx: Ctx,
    seat: Seat,
    outcome: Option<Outcome>,
    is_made: bool,
}

impl Report {
    fn new(shared: &Arc<Shared>, seat: Seat, ctx: Ctx) -> Self {
        Self { shared: Arc::clone(shared), ctx, seat, outcome: None, is_made: false }
    }

    /// Leaves the reporting to whoever takes it.
    fn make(mut self) -> Done {
        self.is_made = true;
        self.done()
    }

    fn done(&mut self) -> Done {
        Done { seat: self.seat, outcome: self.outcome.take(), told: self.ctx.stop_reason() }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if self.is_made {
            return;
        }
        let done = self.done();
        let mut all = self.shared.done.lock();
        all.push(done);
        // The first of many calls the finisher, who takes them all.
        let is_first = all.len() == 1;
        drop(all);
        if is_first {
            self.shared.stopped.notify_one();
        }
    }
}
