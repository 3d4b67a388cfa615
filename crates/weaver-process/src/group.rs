//! A process and all that belongs to it, from its start to its end.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use weaver_core::clock::Clock;
use weaver_core::time::Monotonic;

/// How long processes may take to die of SIGKILL: only the kernel can hold them up.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Dropped before its end, it kills everything at once.
pub(crate) struct Group {
    child: Child,
    /// The first process, and the number of its group. It is not reaped before everything else has ended:
    /// until then the number is nobody else's, and signals cannot go astray.
    leader: Pid,
    members: platform::Members,
    is_over: bool,
}

impl Group {
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let mark = platform::mark(&mut command)?;
        let child = command.process_group(0).spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader =
            number.ok_or_else(|| io::Error::other("a process that was just started has no number"))?;
        let mut unguarded = Unguarded(Some(leader));
        let members = platform::Members::new(leader, mark)?;
        unguarded.0 = None;
        Ok(Self { child, leader, members, is_over: false })
    }

    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until the first process has ended. It is not reaped by that where the system allows it.
    pub(crate) async fn exited(&mut self) -> io::Result<()> {
        self.members.exited(&mut self.child).await
    }

    /// Ends everything that is still there: politely, and after the grace for certain.
    pub(crate) async fn end(&mut self, clock: &dyn Clock, grace: Duration) {
        let polite_until = clock.monotonic().saturating_add(grace);
        if !self.end_with(Signal::TERM, clock, polite_until).await {
            let kill_until = clock.monotonic().saturating_add(KILL_MAX);
            if !self.end_with(Signal::KILL, clock, kill_until).await {
                tracing::warn!(group = %self.leader.as_raw_nonzero(), "processes do not die of SIGKILL");
            }
        }
    }

    /// Says whether nothing was left in time. Those that are started meanwhile are found the next time
    /// around.
    async fn end_with(&mut self, signal: Signal, clock: &dyn Clock, until: Monotonic) -> bool {
        loop {
            if !self.members.signal(signal).await {
                return true;
            }
            tokio::select! {
                biased;
                () = clock.sleep_until(until) => return false,
                () = self.members.gone(&mut self.child, clock) => {}
            }
        }
    }

    /// How the first process ended. Nothing may be left of it.
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        match self.child.try_wait()? {
            Some(status) => {
                self.is_over = true;
                Ok(status)
            }
            None => Err(io::Error::other("the process hangs in the kernel and cannot be ended")),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.members.kill_now();
        }
    }
}

/// Between its start and the first look at it, a process has nobody else to end it.
struct Unguarded(Option<Pid>);

impl Drop for Unguarded {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            signal_group(leader, Signal::KILL);
        }
    }
}

fn signal_group(leader: Pid, signal: Signal) {
    // It can only fail because nobody is left.
    let _ = kill_process_group(leader, signal);
    if signal == Signal::TERM {
        // One that was stopped can do nothing about a polite signal until it goes on.
        let _ = kill_process_group(leader, Signal::CONT);
    }
}

#[cfg(target_os = "linux")]
mod platform {
    //! Handles of processes tell when each has ended, and `/proc` tells which there are.

    use std::io;
    use std::os::fd::OwnedFd;

    use futures_util::future::join_all;
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::process::{Child, Command};
    use weaver_core::clock::Clock;

    use super::signal_group;
    use crate::tree;

    /// How often a killed family is looked for again, when there is no time to wait for it: a member may have
    /// forked between the look and the signal.
    const KILL_ROUNDS: usize = 4;

    /// Marks what is about to be started, and all that it will start.
    pub(crate) fn mark(command: &mut Command) -> io::Result<String> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let mark = format!("{:032x}", u128::from_ne_bytes(bytes));
        command.env(tree::MARK_VARIABLE, &mark);
        Ok(mark)
    }

    pub(crate) struct Members {
        leader: Pid,
        mark: String,
        exit: AsyncFd<OwnedFd>,
        found: Vec<(Pid, OwnedFd)>,
    }

    impl Members {
        pub(crate) fn new(leader: Pid, mark: String) -> io::Result<Self> {
            let exit = watch(pidfd_open(leader, PidfdFlags::NONBLOCK)?)?;
            Ok(Self { leader, mark, exit, found: Vec::new() })
        }

        pub(crate) async fn exited(&mut self, _child: &mut Child) -> io::Result<()> {
            drop(self.exit.readable().await?);
            Ok(())
        }

        /// Sends a signal to everyone who is alive; `false`: nobody is.
        pub(crate) async fn signal(&mut self, signal: Signal) -> bool {
            let (leader, mark) = (self.leader, self.mark.clone());
            // Beside the handlers: a look at a full `/proc` takes milliseconds. And before the signal: what
            // descends from a process that is gone can no longer be told from others.
            let found = tokio::task::spawn_blocking(move || tree::alive(leader, &mark)).await;
            self.found = found.unwrap_or_default();
            signal_group(self.leader, signal);
            self.signal_found(signal);
            !self.found.is_empty()
        }

        /// Waits until everyone who was sent a signal is gone.
        pub(crate) async fn gone(&mut self, _child: &mut Child, _clock: &dyn Clock) {
            let watched = self.found.drain(..).filter_map(|(_, handle)| watch(handle).ok());
            join_all(watched.map(|handle| async move { drop(handle.readable().await) })).await;
        }

        pub(crate) fn kill_now(&mut self) {
            for _ in 0..KILL_ROUNDS {
                self.found = tree::alive(self.leader, &self.mark);
                signal_group(self.leader, Signal::KILL);
                if self.found.is_empty() {
                    return;
                }
                self.signal_found(Signal::KILL);
            }
        }

        /// Group members have it already from the group; a polite signal is not repeated to them.
        fn signal_found(&self, signal: Signal) {
            for (pid, handle) in &self.found {
                let in_group = rustix::process::getpgid(Some(*pid)).is_ok_and(|group| group == self.leader);
                if !in_group || signal == Signal::KILL {
                    // It can only fail because the process is gone.
                    let _ = pidfd_send_signal(handle, signal);
                    if signal == Signal::TERM {
                        let _ = pidfd_send_signal(handle, Signal::CONT); // As in `signal_group`.
                    }
                }
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

#[cfg(not(target_os = "linux"))]
mod platform {
    //! Elsewhere only the group is known, and whether it is empty can only be asked again and again.

    use std::io;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, test_kill_process_group};
    use tokio::process::{Child, Command};
    use weaver_core::clock::Clock;

    use super::signal_group;

    const ASK_EVERY: Duration = Duration::from_millis(20);

    pub(crate) fn mark(_command: &mut Command) -> io::Result<()> {
        Ok(())
    }

    pub(crate) struct Members(Pid);

    impl Members {
        pub(crate) fn new(leader: Pid, _mark: ()) -> io::Result<Self> {
            Ok(Self(leader))
        }

        pub(crate) async fn exited(&mut self, child: &mut Child) -> io::Result<()> {
            child.wait().await.map(drop)
        }

        pub(crate) async fn signal(&mut self, signal: Signal) -> bool {
            signal_group(self.0, signal);
            test_kill_process_group(self.0).is_ok()
        }

        pub(crate) async fn gone(&mut self, child: &mut Child, clock: &dyn Clock) {
            // Reaped here, or it would count as alive for ever.
            while child.try_wait().is_err() || test_kill_process_group(self.0).is_ok() {
                clock.sleep_until(clock.monotonic().saturating_add(ASK_EVERY)).await;
            }
        }

        pub(crate) fn kill_now(&mut self) {
            signal_group(self.0, Signal::KILL);
        }
    }
}
