//! The explanation as text, for the CLI, the API and the pages.

use std::fmt;

use crate::explain::{Explanation, Reason};
use crate::name::WorkerId;
use crate::task::{Cause, TaskState};
use crate::time::Timestamp;

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "task {}/{} is {}", self.key.namespace, self.shown_id, self.state)?;
        self.reasons.iter().try_for_each(|reason| write!(out, "\n  {reason}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DueAt { at, because: None } => write!(out, "due at {at}"),
            Self::DueAt { at, because: Some(cause) } => write!(out, "due again at {at}: {cause}"),
            Self::Expired { at } => {
                write!(out, "expired at {at}, before its first start; it will be cancelled")
            }
            Self::KeyHeld { by, worker, until } => write_key_held(out, by, worker.as_ref(), *until),
            Self::KeyUnreadable { by } => {
                write!(out, "its serial key is held by task {by}, which cannot be read: ")?;
                write!(
                    out,
                    "`weaver store check` names the cause, `weaver tasks purge {by}` removes the task"
                )
            }
            Self::KeyWaitsFor { task } => write!(out, "task {task} with the same serial key starts first"),
            Self::Ahead { at_least: 1 } => out.write_str("at least 1 task of its queue is ahead of it"),
            Self::Ahead { at_least } => write!(out, "at least {at_least} tasks of its queue are ahead of it"),
            Self::Paused { queue } => {
                write!(out, "queue {queue} is paused: resume it with `weaver queues resume {queue}`")
            }
            Self::LimitReached { queue, occupied, max_running } => {
                write!(
                    out,
                    "queue {queue} is at its concurrency limit: {occupied} of {max_running} slots taken"
                )
            }
            Self::SlotsUnreadable { queue, count } => {
                write!(out, "slots of queue {queue} taken by tasks that cannot be read: {count}; ")?;
                out.write_str("`weaver store check` names them")
            }
            Self::SettingsUnreadable { queue } => {
                write!(out, "the settings of queue {queue} cannot be read, so it counts as paused: ")?;
                write!(out, "write them again, for example with `weaver queues resume {queue}`")
            }
            Self::NoWorker { queue, alive: 0, .. } => {
                write!(out, "no worker is alive in its namespace: start one that serves queue {queue}")
            }
            Self::NoWorker { queue, task_type, alive } => {
                write!(
                    out,
                    "no live worker takes {task_type} tasks from queue {queue} (live workers: {alive})"
                )
            }
            Self::NextInLine => out.write_str("ready to run: the next free worker takes it"),
            Self::Assigned { worker, since } => {
                write!(out, "assigned to {worker} since {since}, not started")
            }
            Self::Orphaned { losses } => {
                write!(out, "orphaned: its worker disappeared (losses so far: {losses}); ")?;
                out.write_str("it waits to be assigned again")
            }
            Self::Running { worker, since, lease_until } => {
                write!(
                    out,
                    "running on {worker} since {since}, lease expires at {lease_until} unless renewed"
                )
            }
            Self::RunningUnleased => {
                out.write_str("running without a lease; maintenance ends the attempt as lost")
            }
            Self::Ended { state, because, at, error } => {
                write_end(out, *state, *because, *at, error.as_deref())
            }
            Self::HandlerStopping { worker, until } => {
                write!(out, "its handler on {worker} has not stopped yet; its hold ends by {until}")
            }
        }
    }
}

fn write_key_held(
    out: &mut fmt::Formatter<'_>,
    by: &str,
    worker: Option<&WorkerId>,
    until: Option<Timestamp>,
) -> fmt::Result {
    write!(out, "its serial key is held by task {by}")?;
    match (worker, until) {
        (Some(worker), Some(until)) => write!(out, " on {worker}, until {until} unless renewed"),
        (Some(worker), None) => write!(out, ", assigned to {worker}"),
        (None, _) => out.write_str(", between two attempts"),
    }
}

fn write_end(
    out: &mut fmt::Formatter<'_>,
    state: TaskState,
    because: Option<Cause>,
    at: Timestamp,
    error: Option<&str>,
) -> fmt::Result {
    let end = if state == TaskState::Dead { "failed permanently" } else { state.as_str() };
    write!(out, "{end} at {at}")?;
    // "Failed" is in the first words already.
    let cause = because.filter(|cause| *cause != Cause::Failed);
    match (cause, error) {
        (Some(cause), Some(error)) => write!(out, ": {cause} ({error})"),
        (Some(cause), None) => write!(out, ": {cause}"),
        (None, Some(error)) => write!(out, ": {error}"),
        (None, None) => Ok(()),
    }
}
