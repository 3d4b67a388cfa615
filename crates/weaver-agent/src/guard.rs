//! A process between a runner and its agent, so that the agent never outlives the runner and never hides from it.
//!
//! ```text
//! runner ── guard ── agent ── …
//!             │        └─ a child that leaves its group, its session, its environment and its parent …
//!             └──────────── … has the guard as its parent: the guard is a child subreaper
//! ```
//!
//! When the agent has ended, or the runner has (by SIGKILL, say), the guard ends everything below itself: SIGTERM, a grace,
//! SIGKILL. It ends with the agent's code. It is part of the runner's own binary: `runner-guard RUNNER GRACE_MS PROGRAM ARGS…`,
//! which is no command for people. Only Linux has what it takes; elsewhere nothing is started under a guard.
//!
//! A signal on the parent's death (`PR_SET_PDEATHSIG`) would need no process, but reaches the agent only, not what the agent
//! started; and it can only be asked for between `fork` and `exec`, which needs `unsafe`.

/// The word that makes a binary a guard.
pub const COMMAND: &str = "runner-guard";

#[cfg(target_os = "linux")]
pub use linux::main;

/// There is no guard here.
#[cfg(not(target_os = "linux"))]
pub fn main(_args: impl Iterator<Item = std::ffi::OsString>) -> u8 {
    eprintln!("there is no guard on this system");
    1
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::process::Command;
    use std::time::Duration;

    use futures_util::future::join_all;
    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, pidfd_open, pidfd_send_signal,
        set_child_subreaper, wait,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
    use weaver_core::clock::Clock;
    use weaver_core::time::Monotonic;
    use weaver_runtime::SystemClock;

    use crate::process::tree;

    /// What shells say of a program that cannot be run.
    const CANNOT_RUN: u8 = 126;
    /// And of one that a signal ended: this and the signal.
    const SIGNAL_BASE: i32 = 128;
    /// How long processes may take to die of SIGKILL: only the kernel can hold them up.
    const KILL_MAX: Duration = Duration::from_secs(5);

    /// Stands guard, with the words that follow [`COMMAND`](super::COMMAND); returns the code to end with.
    pub fn main(args: impl Iterator<Item = OsString>) -> u8 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let guarded = runtime.and_then(|runtime| runtime.block_on(guard(args)));
        guarded.unwrap_or_else(|error| {
            // It lands in the attempt's log, as all the agent says.
            eprintln!("weaver: the agent cannot be run: {error}");
            CANNOT_RUN
        })
    }

    async fn guard(mut args: impl Iterator<Item = OsString>) -> io::Result<u8> {
        let mut word = || args.next().ok_or_else(|| io::Error::other("this is no command for people"));
        let runner = number(&word()?).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let runner = runner.ok_or_else(|| io::Error::other("this is no process"))?;
        let grace = number(&word()?).map(Duration::from_millis).unwrap_or_default();
        let program = word()?;
        let runner_ends = watch(pidfd_open(runner, PidfdFlags::NONBLOCK)?)?;
        if getppid() != Some(runner) {
            return Err(io::Error::other("the runner is gone"));
        }
        set_child_subreaper(Some(getpid()))?;
        // Before the agent starts: no end of it is missed. And signals meant for the agent are not the guard's own.
        let mut children = signal(SignalKind::child())?;
        let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        let agent = Command::new(program).args(args).spawn()?;
        let agent = i32::try_from(agent.id()).ok().and_then(Pid::from_raw);
        let code = tokio::select! {
            biased;
            code = ended(agent, &mut children) => code?,
            died = runner_ends.readable() => died.map(|_| CANNOT_RUN)?,
        };
        end_all(&SystemClock::new(), grace).await;
        Ok(code)
    }

    fn number(text: &OsString) -> Option<u64> {
        text.to_str()?.parse().ok()
    }

    /// Waits until the agent has ended, and lets the dead among the orphans rest meanwhile.
    async fn ended(agent: Option<Pid>, children: &mut Signals) -> io::Result<u8> {
        loop {
            while let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
                if Some(pid) == agent {
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

    /// Ends everything below this process: politely, and after the grace for certain.
    async fn end_all(clock: &dyn Clock, grace: Duration) {
        let polite_until = clock.monotonic().saturating_add(grace);
        if !end_with(Signal::TERM, clock, polite_until).await {
            let kill_until = clock.monotonic().saturating_add(KILL_MAX);
            end_with(Signal::KILL, clock, kill_until).await;
        }
    }

    /// Says whether nothing was left in time. Each is sent the signal once; those started meanwhile are found the next time.
    async fn end_with(signal: Signal, clock: &dyn Clock, until: Monotonic) -> bool {
        loop {
            let found = tree::below(getpid());
            if found.is_empty() {
                return true;
            }
            for (_, handle) in &found {
                // It can only fail because the process is gone.
                let _ = pidfd_send_signal(handle, signal);
                if signal == Signal::TERM {
                    // One that was stopped can do nothing about a polite signal until it goes on.
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
    fn watch(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(handle, Interest::READABLE)
    }
}
