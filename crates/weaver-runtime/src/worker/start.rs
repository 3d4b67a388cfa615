//! Starting handlers.
//!
//! Many handlers are done the first time they are polled, and a tokio task each would cost them more than their own work:
//! an allocation, a place in the scheduler's lists, and often a sleeping thread woken. So a *starter*, itself a tokio
//! task, gives fresh handlers their first poll, a few in one turn; one that has to wait goes on as a tokio task of its own.
//! Nothing is lost by that: a handler can only be stopped while it waits, and then it is such a task.
//!
//! A first poll may take long (a computation), and then the others of its turn wait for it. So a turn is as many handlers
//! as fit into [`TURN`] at the pace of the last one: if they take longer than that, one. What a starter leaves
//! behind is another's at once, as long as there are fewer of them than threads.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weaver_core::lease::Leased;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::execute::execute;
use crate::worker::Shared;
use crate::worker::table::{Buffered, Done, Handler, Started, Table};

/// How long a starter's turn should last: little beside everything a caller can notice.
const TURN: Duration = Duration::from_micros(100);
/// The most handlers in one turn.
const TURN_MAX: usize = 64;

/// Handlers that are yet to begin, and those who begin them.
pub(crate) struct Fresh {
    waiting: VecDeque<(u64, Ctx)>,
    /// How many of them may begin in one turn.
    per_turn: usize,
    starters: usize,
    starters_max: usize,
}

impl Default for Fresh {
    fn default() -> Self {
        // Until something is known about the handlers, each may be a long one.
        Self { waiting: VecDeque::new(), per_turn: 1, starters: 0, starters_max: 1 }
    }
}

impl Fresh {
    /// As many starters as can run at the same time.
    pub(super) fn use_threads_of(&mut self, runtime: &tokio::runtime::Handle) {
        self.starters_max = runtime.metrics().num_workers();
    }

    /// Whether one more starter is of use; if so, it is counted.
    fn needs_starter(&mut self) -> bool {
        let needed = !self.waiting.is_empty() && self.starters < self.starters_max;
        self.starters += usize::from(needed);
        needed
    }
}

impl Shared {
    /// Puts newly leased tasks into the buffer and starts as many as there are slots. Fragile ones go first: they were
    /// asked for by the number of free slots, and must not wait beside others.
    pub(crate) fn accept(self: &Arc<Self>, leased: Vec<Leased>, sent_at: Monotonic) {
        let valid_until = self.valid_until(sent_at);
        let (fragile, sturdy): (Vec<_>, Vec<_>) =
            leased.into_iter().partition(|leased| leased.record.is_fragile());
        let mut table = self.table.lock();
        for leased in fragile.into_iter().rev() {
            let number = table.number();
            table.buffer.push_front(Buffered { number, leased: leased.into(), valid_until });
        }
        for leased in sturdy {
            let number = table.number();
            table.buffer.push_back(Buffered { number, leased: leased.into(), valid_until });
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
        while table.running < self.options.concurrency
            && let Some(buffered) = table.next_startable(self)
        {
            table.running += 1;
            let task_type = &buffered.leased.record.spec.envelope.task_type;
            if self.options.type_limits.iter().any(|(limited, _)| limited == task_type) {
                *table.running_of_type.entry(task_type.clone()).or_default() += 1;
            }
            let (number, started) = self.started(buffered, started_at, Handler::Beginning);
            fresh.waiting.push_back((number, started.ctx.clone()));
            table.started.insert(number, started);
        }
        let needs_starter = fresh.needs_starter();
        drop(fresh);
        if needs_starter {
            self.spawn_starter();
        }
    }

    fn started(&self, buffered: Buffered, started_at: Monotonic, handler: Handler) -> (u64, Started) {
        let Buffered { number, leased, valid_until } = buffered;
        let ctx = Ctx::new(leased, Arc::clone(&self.surroundings));
        (number, Started { ctx, valid_until, started_at, handler, abort_at: None, aborted: false })
    }

    /// Gives back what was leased and not started.
    pub(crate) fn give_back_buffer(self: &Arc<Self>) {
        let mut table = self.table.lock();
        let buffered: Vec<_> = table.buffer.drain(..).collect();
        let started_at = self.clock.monotonic();
        for buffered in buffered {
            let (number, started) = self.started(buffered, started_at, Handler::Stopped);
            table.started.insert(number, started);
            self.done.lock().push(Done { number, outcome: Some(Outcome::Released), told: None });
        }
        drop(table);
        self.stopped.notify_one();
        self.freed();
    }

    /// Tells every handler to stop.
    pub(crate) fn stop_all(&self, reason: StopReason) {
        let table = self.table.lock();
        table
            .started
            .values()
            .filter(|started| started.is_running())
            .for_each(|started| started.ctx.stop(reason));
    }

    /// Drops every handler at its next `.await`.
    pub(crate) fn abort_all(&self) {
        self.table.lock().started.values_mut().for_each(Started::abort);
    }

    #[expect(clippy::disallowed_methods, reason = "a starter ends when nothing is left to begin")]
    fn spawn_starter(self: &Arc<Self>) {
        drop(tokio::spawn(start_fresh(Arc::clone(self))));
    }

    /// Takes the handlers of a turn.
    fn next_turn(self: &Arc<Self>, turn: &mut Vec<(u64, Ctx)>) {
        let mut fresh = self.fresh.lock();
        let count = fresh.per_turn.min(fresh.waiting.len());
        turn.extend(fresh.waiting.drain(..count));
        if fresh.needs_starter() {
            drop(fresh);
            self.spawn_starter();
        }
    }

    /// Announces how a turn went: its ends all at once, and its pace for the next. Says whether the starter goes on; if
    /// nothing is left to begin, it has been counted out.
    fn turn_over(&self, ended: &mut Vec<Done>, begun: usize, took: Duration) -> bool {
        let per_handler = took / u32::try_from(begun).unwrap_or(1).max(1);
        let fits = TURN.as_nanos() / per_handler.as_nanos().max(1);
        let mut fresh = self.fresh.lock();
        fresh.per_turn = usize::try_from(fits).unwrap_or(TURN_MAX).clamp(1, TURN_MAX);
        let goes_on = !fresh.waiting.is_empty();
        fresh.starters -= usize::from(!goes_on);
        drop(fresh);
        if !ended.is_empty() {
            self.done.lock().append(ended);
            self.stopped.notify_one();
        }
        goes_on
    }

    /// A handler has to wait: from now on it is a tokio task of its own.
    #[expect(
        clippy::disallowed_methods,
        reason = "handlers become tasks here and nowhere else, and are aborted in `abort_all`"
    )]
    fn go_on(&self, number: u64, work: Work) {
        // Spawned without the lock: the scheduler may wake a thread for it.
        let task = tokio::spawn(async { drop(work.await) }).abort_handle();
        let mut table = self.table.lock();
        // It may have ended already, or have been aborted before there was a task to abort.
        let started = table.started.get_mut(&number).filter(|started| started.is_running());
        if let Some(started) = started {
            if started.aborted {
                task.abort();
            }
            started.handler = Handler::Waiting(task);
        }
    }
}

/// A handler at work. It gives its report back when it is done; dropped, the report is made by itself.
type Work = Pin<Box<dyn Future<Output = Report> + Send>>;

/// Begins handlers, turn by turn, until none are left.
async fn start_fresh(shared: Arc<Shared>) {
    let (mut turn, mut ended) = (Vec::new(), Vec::new());
    loop {
        shared.next_turn(&mut turn);
        let (begun, since) = (turn.len(), shared.clock.monotonic());
        poll_fn(|task| {
            ended.extend(turn.drain(..).filter_map(|(number, ctx)| begin(&shared, number, ctx, task)));
            Poll::Ready(())
        })
        .await;
        let took = shared.clock.monotonic().0.saturating_sub(since.0);
        if !shared.turn_over(&mut ended, begun, took) {
            return;
        }
        // Others on this thread go first.
        tokio::task::yield_now().await;
    }
}

/// The first poll of a handler; returns its end, if that was all. Whatever it does, the starter goes on: a panic of the
/// handler itself is caught where it is run, and one of what it leaves behind is caught here.
fn begin(shared: &Arc<Shared>, number: u64, ctx: Ctx, task: &mut Context<'_>) -> Option<Done> {
    let first_poll = AssertUnwindSafe(|| {
        let is_aborted = ctx.is_aborted();
        let report = Report { shared: Arc::clone(shared), ctx, number, outcome: None, is_made: false };
        if is_aborted {
            return None;
        }
        let mut work: Work = Box::pin(run(report));
        match work.as_mut().poll(task) {
            Poll::Ready(report) => Some(report.make()),
            Poll::Pending => {
                shared.go_on(number, work);
                None
            }
        }
    });
    std::panic::catch_unwind(first_poll).unwrap_or_else(|_| {
        tracing::warn!(number, "what a handler left behind panicked when it was dropped");
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

/// Reports that a handler has stopped, whatever stopped it: dropped with its task, it cannot be forgotten. That is why
/// no task stays Running because its handler was aborted.
struct Report {
    shared: Arc<Shared>,
    ctx: Ctx,
    number: u64,
    outcome: Option<Outcome>,
    is_made: bool,
}

impl Report {
    /// Leaves the reporting to whoever takes it.
    fn make(mut self) -> Done {
        self.is_made = true;
        self.done()
    }

    fn done(&mut self) -> Done {
        Done { number: self.number, outcome: self.outcome.take(), told: self.ctx.stop_reason() }
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
