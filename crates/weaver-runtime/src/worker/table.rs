//! The tasks a worker has in hand: buffered, running, or ended and being reported. Each has a lease to be
//! renewed.

use std::collections::{HashMap, VecDeque};

use tokio::task::AbortHandle;
use weaver_core::lease::Lease;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::worker::Shared;
use crate::worker::seats::{Seat, Seats};

#[derive(Default)]
pub(crate) struct Table {
    /// Leased and not started, in the order of the lease.
    pub(crate) buffer: VecDeque<Buffered>,
    /// Started, and not yet reported.
    pub(crate) started: Seats,
    pub(crate) running: u32,
    /// Whether the finisher has something that is in no list any more.
    pub(crate) reporting: bool,
    /// Kept only for types that have a limit.
    pub(super) running_of_type: HashMap<TaskType, u32>,
    next_number: u64,
    /// Handlers that ended since the last fetch: how much of a buffer is worth having.
    pub(crate) ended_since_fetch: u32,
}

pub(crate) struct Buffered {
    pub(crate) number: u64,
    pub(crate) ctx: Ctx,
    pub(crate) valid_until: Monotonic,
}

pub(crate) struct Started {
    pub(crate) ctx: Ctx,
    pub(crate) valid_until: Monotonic,
    pub(crate) started_at: Monotonic,
    pub(crate) handler: Handler,
    /// When a handler that was told to stop is dropped.
    pub(crate) abort_at: Option<Monotonic>,
    /// It has been told for the last time: what is left is to hear that it is gone.
    pub(crate) aborted: bool,
}

/// Where a task's handler is.
pub(crate) enum Handler {
    /// It is about to begin, or in its first poll.
    Beginning,
    /// It had to wait for something, and has a tokio task of its own since.
    Waiting(AbortHandle),
    /// It has stopped, or never began.
    Stopped,
}

impl Started {
    pub(crate) fn lease(&self) -> &Lease {
        &self.ctx.leased().lease
    }

    /// Whether the handler has a slot.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.handler, Handler::Stopped)
    }

    /// Drops the handler at its next `.await`.
    pub(crate) fn abort(&mut self) {
        self.aborted = true;
        match &self.handler {
            Handler::Beginning => self.ctx.abort(),
            Handler::Waiting(task) => task.abort(),
            Handler::Stopped => {}
        }
    }
}

/// A handler has stopped: by itself with an outcome, or because it was dropped.
pub(crate) struct Done {
    pub(crate) seat: Seat,
    pub(crate) outcome: Option<Outcome>,
    /// What it had been told by then. What it is told later, while its end waits to be reported, changes
    /// nothing about it.
    pub(crate) told: Option<StopReason>,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.started.is_empty() && !self.reporting
    }

    /// Gives a buffered task a seat.
    pub(super) fn start(&mut self, buffered: Buffered, started_at: Monotonic, handler: Handler) -> Seat {
        let Buffered { number, ctx, valid_until } = buffered;
        ctx.start(started_at);
        let started = Started { ctx, valid_until, started_at, handler, abort_at: None, aborted: false };
        self.started.take(number, started)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Whether as many of a type are in hand as may run.
    pub(crate) fn is_saturated(&self, task_type: &TaskType, limit: u32) -> bool {
        let of_type = |buffered: &&Buffered| buffered.ctx.record().spec.envelope.task_type == *task_type;
        let buffered = self.buffer.iter().filter(of_type).count() as u32;
        self.running_of_type.get(task_type).copied().unwrap_or(0) + buffered >= limit
    }

    /// Takes the first buffered task whose type has room.
    pub(super) fn next_startable(&mut self, shared: &Shared) -> Option<Buffered> {
        let has_room = |buffered: &Buffered| {
            let task_type = &buffered.ctx.record().spec.envelope.task_type;
            let limit = shared.options.type_limits.iter().find(|(limited, _)| limited == task_type);
            limit.is_none_or(|(_, max)| {
                self.running_of_type.get(task_type).is_none_or(|running| running < max)
            })
        };
        if shared.options.type_limits.is_empty() {
            return self.buffer.pop_front();
        }
        let position = self.buffer.iter().position(has_room)?;
        self.buffer.remove(position)
    }

    /// Notes that a handler has stopped, and its slot is free; returns its task, unless that was given up.
    pub(crate) fn stopped(&mut self, seat: Seat) -> Option<&Started> {
        let started = self.started.get_mut(seat)?;
        if started.is_running() {
            started.handler = Handler::Stopped;
            self.running -= 1;
            self.ended_since_fetch += 1;
            if !self.running_of_type.is_empty()
                && let Some(running) =
                    self.running_of_type.get_mut(&started.ctx.record().spec.envelope.task_type)
            {
                *running = running.saturating_sub(1);
            }
        }
        Some(started)
    }
}
