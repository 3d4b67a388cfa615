//! Waiting for a command, and ending its remaining processes: the same inside a sandbox and outside.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, pidfd_send_signal, wait};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::Signal as Signals;
use weaver_core::clock::Clock;
use weaver_core::time::Monotonic;
use weaver_runtime::SystemClock;

use crate::tree;

/// The exit code of shells for a program that cannot be run.
pub(super) const CANNOT_RUN: u8 = 126;
/// Shells report a signal as exit code 128 + signal.
const SIGNAL_BASE: i32 = 128;
/// How long processes may take to end after SIGKILL: only the kernel can delay them.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Waits until the command has ended, and reaps orphans in the meantime.
pub(super) async fn ended(command: Option<Pid>, children: &mut Signals) -> io::Result<u8> {
    loop {
        while let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
            if Some(pid) == command {
                return Ok(code_of(status));
            }
        }
        children.recv().await;
    }
}

fn code_of(status: WaitStatus) -> u8 {
    let signal = status.terminating_signal().map(|signal| SIGNAL_BASE + signal);
    let code = signal.or_else(|| status.exit_status()).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// Ends all descendants of this process: SIGTERM, and SIGKILL after the grace period.
pub(super) async fn end_all(grace: Duration) {
    let clock = SystemClock::new();
    let polite_until = clock.monotonic().saturating_add(grace);
    if !end_with(Signal::TERM, &clock, polite_until).await {
        let kill_until = clock.monotonic().saturating_add(KILL_MAX);
        end_with(Signal::KILL, &clock, kill_until).await;
    }
}

/// Whether all processes ended in time. Those started meanwhile are found in the next round.
async fn end_with(signal: Signal, clock: &dyn Clock, until: Monotonic) -> bool {
    loop {
        let found = tree::below(getpid());
        if found.is_empty() {
            return true;
        }
        for (_, handle) in &found {
            // It can only fail because the process has ended.
            let _ = pidfd_send_signal(handle, signal);
            if signal == Signal::TERM {
                // A stopped process handles SIGTERM only after SIGCONT.
                let _ = pidfd_send_signal(handle, Signal::CONT);
            }
        }
        let handles = found.into_iter().filter_map(|(_, handle)| watch(handle).ok());
        let gone = join_all(handles.map(|handle| async move { drop(handle.readable().await) }));
        tokio::select! {
            biased;
            () = clock.sleep_until(until) => return false,
            _ = gone => {}
        }
    }
}

#[expect(
    deprecated,
    reason = "an owned handle stays open as long as it is watched; the successor needs `unsafe`"
)]
pub(super) fn watch(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}

/// Single-threaded: namespaces and credentials are per thread, and a second one would not have them.
pub(super) fn one_thread() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
