//! The tasks a worker has in hand: buffered, running, or ended and being reported. Each has a lease to be renewed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::task::AbortHandle;
use weaver_core::lease::Leased;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::execute::execute;
use crate::worker::Shared;

#[derive(Default)]
pub(crate) struct Table {
    /// Leased and not started, in the order of the lease.
    pub(crate) buffer: VecDeque<Buffered>,
    /// Started, by the number each task gets when it is leased. Numbers are never used twice, and what is done to all is
    /// done in their order: a simulation repeats itself.
    pub(crate) started: BTreeMap<u64, Started>,
    pub(crate) running: u32,
    /// Whether the finisher has something that is in no list any more.
    pub(crate) reporting: bool,
    /// Kept only for types that have a limit.
    running_of_type: HashMap<TaskType, u32>,
    next_number: u64,
    /// Handlers that ended since the last fetch: how much of a buffer is worth having.
    pub(crate) ended_since_fetch: u32,
}

pub(crate) struct Buffered {
    pub(crate) number: u64,
    pub(crate) leased: Arc<Leased>,
    pub(crate) valid_until: Monotonic,
}

pub(crate) struct Started {
    pub(crate) leased: Arc<Leased>,
    pub(crate) ctx: Ctx,
    pub(crate) valid_until: Monotonic,
    pub(crate) started_at: Monotonic,
    /// Present while the handler runs.
    pub(crate) handler: Option<AbortHandle>,
    /// When a handler that was told to stop is dropped.
    pub(crate) abort_at: Option<Monotonic>,
    /// It has been told for the last time: what is left is to hear that it is gone.
    pub(crate) aborted: bool,
}

impl Started {
    /// Drops the handler at its next `.await`.
    pub(crate) fn abort(&mut self) {
        self.aborted = true;
        self.handler.iter().for_each(AbortHandle::abort);
    }
}

/// A handler has stopped: by itself with an outcome, or because it was dropped.
pub(crate) struct Done {
    pub(crate) number: u64,
    pub(crate) outcome: Option<Outcome>,
    /// What it had been told by then. What it is told later, while its end waits to be reported, changes nothing about it.
    pub(crate) told: Option<StopReason>,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.started.is_empty() && !self.reporting
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Whether as many of a type are in hand as may run.
    pub(crate) fn is_saturated(&self, task_type: &TaskType, limit: u32) -> bool {
        let of_type = |buffered: &&Buffered| buffered.leased.record.spec.envelope.task_type == *task_type;
        let buffered = self.buffer.iter().filter(of_type).count() as u32;
        self.running_of_type.get(task_type).copied().unwrap_or(0) + buffered >= limit
    }

    /// Takes the first buffered task whose type has room.
    fn next_startable(&mut self, shared: &Shared) -> Option<Buffered> {
        let has_room = |buffered: &Buffered| {
            let task_type = &buffered.leased.record.spec.envelope.task_type;
            let limit = shared.options.type_limits.iter().find(|(limited, _)| limited == task_type);
            limit.is_none_or(|(_, max)| {
                self.running_of_type.get(task_type).is_none_or(|running| running < max)
            })
        };
        let position = self.buffer.iter().position(has_room)?;
        self.buffer.remove(position)
    }

    /// Notes that a handler has stopped; its slot is free.
    pub(crate) fn stopped(&mut self, number: u64) {
        let Some(started) = self.started.get_mut(&number) else { return };
        if started.handler.take().is_some() {
            self.running -= 1;
            self.ended_since_fetch += 1;
            let task_type = &started.leased.record.spec.envelope.task_type;
            if let Some(running) = self.running_of_type.get_mut(task_type) {
                *running = running.saturating_sub(1);
            }
        }
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
        while table.running < self.options.concurrency
            && let Some(buffered) = table.next_startable(self)
        {
            self.start(table, buffered);
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "handlers are started here and nowhere else, and aborted in `abort_all`"
    )]
    fn start(self: &Arc<Self>, table: &mut Table, buffered: Buffered) {
        let Buffered { number, leased, valid_until } = buffered;
        table.running += 1;
        let task_type = &leased.record.spec.envelope.task_type;
        if self.options.type_limits.iter().any(|(limited, _)| limited == task_type) {
            *table.running_of_type.entry(task_type.clone()).or_default() += 1;
        }
        let (source, clock) = (Arc::clone(&self.source), Arc::clone(&self.clock));
        let ctx = Ctx::new(leased.clone(), source, clock, Arc::clone(&self.values));
        let report = Report { shared: Arc::clone(self), ctx: ctx.clone(), number, outcome: None };
        let handler = tokio::spawn(run(Arc::clone(self), ctx.clone(), report));
        let handler = Some(handler.abort_handle());
        let started_at = self.clock.monotonic();
        let started =
            Started { leased, ctx, valid_until, started_at, handler, abort_at: None, aborted: false };
        table.started.insert(number, started);
    }

    /// Gives back what was leased and not started.
    pub(crate) fn give_back_buffer(self: &Arc<Self>) {
        let mut table = self.table.lock();
        let buffered: Vec<_> = table.buffer.drain(..).collect();
        for Buffered { number, leased, valid_until } in buffered {
            let (source, clock) = (Arc::clone(&self.source), Arc::clone(&self.clock));
            let ctx = Ctx::new(leased.clone(), source, clock, Arc::clone(&self.values));
            let started_at = self.clock.monotonic();
            table.started.insert(
                number,
                Started {
                    leased,
                    ctx,
                    valid_until,
                    started_at,
                    handler: None,
                    abort_at: None,
                    aborted: false,
                },
            );
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
            .filter(|started| started.handler.is_some())
            .for_each(|started| started.ctx.stop(reason));
    }

    /// Drops every handler at its next `.await`.
    pub(crate) fn abort_all(&self) {
        self.table.lock().started.values_mut().for_each(Started::abort);
    }
}

/// Runs one handler to its end, its timeout, or its abortion.
async fn run(shared: Arc<Shared>, ctx: Ctx, mut report: Report) {
    let span = super::observe::span(&ctx);
    let work = tracing::Instrument::instrument(execute(&shared.registry, &ctx), span);
    let outcome = match ctx.deadline() {
        None => work.await,
        Some(deadline) => tokio::select! {
            biased;
            outcome = work => outcome,
            () = shared.clock.sleep_until(deadline) => Outcome::TimedOut,
        },
    };
    report.outcome = Some(outcome);
}

/// Reports that a handler has stopped, whatever stopped it: dropped with its task, it cannot be forgotten. That is why
/// no task stays Running because its handler was aborted.
struct Report {
    shared: Arc<Shared>,
    ctx: Ctx,
    number: u64,
    outcome: Option<Outcome>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let (outcome, told) = (self.outcome.take(), self.ctx.stop_reason());
        self.shared.done.lock().push(Done { number: self.number, outcome, told });
        self.shared.stopped.notify_one();
    }
}
