//! A process for one attempt of a task: stopped when the attempt is, and a little before its timeout.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use weaver_core::clock::Clock;
use weaver_runtime::Ctx;

use crate::run::{self, Finished, ProcessSpec, Stream};

/// Shells report a signal as exit code 128 + signal.
const SIGNAL_BASE: i32 = 128;
const SIGNAL_MAX: i32 = 64;

/// Why a process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// The worker stops the attempt; [`Ctx::stop_reason`] says why.
    FromWorker,
    /// The task's timeout is about to pass.
    Timeout,
}

/// Runs a process until it ends, or until the attempt is stopped and all its processes have ended.
///
/// # Errors
/// As [`crate::run`].
pub async fn run(
    spec: &ProcessSpec,
    ctx: &Ctx,
    clock: &dyn Clock,
    sink: impl FnMut(Stream, &[u8]) + Send,
) -> io::Result<Finished<StopSignal>> {
    let stop = async {
        tokio::select! {
            biased;
            () = ctx.cancelled() => StopSignal::FromWorker,
            () = before_timeout(ctx, clock, spec.grace) => StopSignal::Timeout,
        }
    };
    run::run(spec, clock, sink, stop).await
}

/// Resolves a little before the task's timeout, at which the worker drops the handler and everything is
/// killed: the difference is the command's time for a graceful end.
async fn before_timeout(ctx: &Ctx, clock: &dyn Clock, grace: Duration) {
    let Some(left) = ctx.time_left() else { return std::future::pending().await };
    let grace = grace.min(left / 10);
    clock.sleep_until(clock.monotonic().saturating_add(left.saturating_sub(grace))).await;
}

/// How a failed process ended, as the predicate of a sentence: `exited with code 1`.
pub fn ended_how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if (1..=SIGNAL_MAX).contains(&(code - SIGNAL_BASE)) => {
            format!("exited with code {code} (128 + signal {})", code - SIGNAL_BASE)
        }
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}
