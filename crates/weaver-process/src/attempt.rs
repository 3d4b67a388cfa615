//! A process that does one attempt of a task: told to stop when the attempt is, and a little before its time
//! is up.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use weaver_core::clock::Clock;
use weaver_runtime::Ctx;

use crate::run::{self, Finished, ProcessSpec, Stream};

/// Codes above this are signals, as shells count them.
const SIGNAL_BASE: i32 = 128;
/// The highest number of a signal.
const SIGNAL_MAX: i32 = 64;

/// Why a process was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// By the worker; the context knows why.
    ToStop,
    /// Because the task's time is up.
    TimeIsUp,
}

/// Runs a process until it ends, or until the attempt is to stop and nothing of it is left.
///
/// # Errors
/// As [`crate::run`].
pub async fn run(
    spec: &ProcessSpec,
    ctx: &Ctx,
    clock: &dyn Clock,
    sink: impl FnMut(Stream, &[u8]) + Send,
) -> io::Result<Finished<Told>> {
    let stop = async {
        tokio::select! {
            biased;
            () = ctx.cancelled() => Told::ToStop,
            () = time_is_up(ctx, clock, spec.grace) => Told::TimeIsUp,
        }
    };
    run::run(spec, clock, sink, stop).await
}

/// Comes a little before the task's timeout, at which the worker drops the handler and everything is killed:
/// the difference is the command's chance to end in order.
async fn time_is_up(ctx: &Ctx, clock: &dyn Clock, grace: Duration) {
    let Some(left) = ctx.time_left() else { return std::future::pending().await };
    let grace = grace.min(left / 10);
    clock.sleep_until(clock.monotonic().saturating_add(left.saturating_sub(grace))).await;
}

/// How a process ended that did not succeed, as the end of a sentence about it.
pub fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if (1..=SIGNAL_MAX).contains(&(code - SIGNAL_BASE)) => {
            format!("exited with code {code} (signal {}, as shells count)", code - SIGNAL_BASE)
        }
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}
