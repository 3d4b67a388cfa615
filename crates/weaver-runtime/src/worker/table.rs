//! The tasks a worker holds a lease on: buffered, running, or ended and being reported.

use std::collections::{HashMap, VecDeque};

use tokio::task::AbortHandle;
use weaver_core::lease::Lease;
use weaver_core::name::TaskType;
use weaver_core::outcome::Outcome;
use weaver_core::time::Monotonic;

use crate::ctx::{Ctx, StopReason};
use crate::worker::Shared;
use crate::worker::slots::{Slot, Slots};

#[derive(Default)]
pub(crate) struct Table {
    /// Leased and not started, in the order of the lease.
    pub(crate) buffer: VecDeque<Buffered>,
    /// Started, and not yet reported.
    pub(crate) started: Slots,
    pub(crate) running: u32,
    /// Whether the finisher reports tasks that are in no list any more.
    pub(crate) reporting: bool,
    /// Only for types that have a limit.
    pub(super) running_of_type: HashMap<TaskType, u32>,
    next_number: u64,
    /// Handlers that ended since the last fetch: the size of the prefetch buffer.
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
    /// When a handler that was signalled to stop is dropped.
    pub(crate) abort_at: Option<Monotonic>,
    /// Its abort was requested: only its drop is still to be seen.
    pub(crate) aborted: bool,
}

pub(crate) enum Handler {
    /// Queued for its first poll, or in it.
    Beginning,
    /// Pending after its first poll: a tokio task of its own.
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

/// A handler has stopped: it returned an outcome, or was dropped.
pub(crate) struct Done {
    pub(crate) slot: Slot,
    pub(crate) outcome: Option<Outcome>,
    /// Its stop signal at that time. A later one, while its outcome waits to be reported, has no effect.
    pub(crate) stop_reason: Option<StopReason>,
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.started.is_empty() && !self.reporting
    }

    /// Moves a buffered task into a slot.
    pub(super) fn start(&mut self, buffered: Buffered, started_at: Monotonic, handler: Handler) -> Slot {
        let Buffered { number, ctx, valid_until } = buffered;
        ctx.start(started_at);
        let started = Started { ctx, valid_until, started_at, handler, abort_at: None, aborted: false };
        self.started.insert(number, started)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Whether as many tasks of a type are held as may run at once.
    pub(crate) fn is_saturated(&self, task_type: &TaskType, limit: u32) -> bool {
        let of_type = |buffered: &&Buffered| buffered.ctx.record().spec.envelope.task_type == *task_type;
        let buffered = self.buffer.iter().filter(of_type).count() as u32;
        self.running_of_type.get(task_type).copied().unwrap_or(0) + buffered >= limit
    }

    /// Removes the first buffered task whose type is below its limit.
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

    /// Marks a handler as stopped, so that another can start; returns its task, unless it was released.
    pub(crate) fn stopped(&mut self, slot: Slot) -> Option<&Started> {
        let started = self.started.get_mut(slot)?;
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
