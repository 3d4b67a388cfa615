//! A process and all its descendants, from start to end.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use weaver_core::clock::Clock;
use weaver_core::time::Monotonic;

/// How long processes may take to end after SIGKILL: only the kernel can delay them.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Kills all its processes when it is dropped before their end.
pub(crate) struct Group {
    child: Child,
    /// The first process, and the id of its process group. It is reaped last: until then the kernel does not
    /// reuse the id, and signals cannot reach other processes.
    leader: Pid,
    members: platform::Members,
    is_over: bool,
}

impl Group {
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        let mark = platform::mark(&mut command)?;
        let child = command.process_group(0).spawn()?;
        let number = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = number.ok_or_else(|| io::Error::other("the started process has no process id"))?;
        let mut unguarded = Unguarded(Some(leader));
        let members = platform::Members::new(leader, mark)?;
        unguarded.0 = None;
        Ok(Self { child, leader, members, is_over: false })
    }

    pub(crate) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits until the first process has ended, without reaping it where the system allows that.
    pub(crate) async fn exited(&mut self) -> io::Result<()> {
        self.members.exited(&mut self.child).await
    }

    /// Ends all remaining processes: SIGTERM, and SIGKILL after the grace period.
    pub(crate) async fn end(&mut self, clock: &dyn Clock, grace: Duration) {
        let polite_until = clock.monotonic().saturating_add(grace);
        if !self.end_with(Signal::TERM, clock, polite_until).await {
            let kill_until = clock.monotonic().saturating_add(KILL_MAX);
            if !self.end_with(Signal::KILL, clock, kill_until).await {
                tracing::warn!(group = %self.leader.as_raw_nonzero(), "processes did not end after SIGKILL");
            }
        }
    }

    /// Whether all processes ended in time. Those started meanwhile are found in the next round.
    async fn end_with(&mut self, signal: Signal, clock: &dyn Clock, until: Monotonic) -> bool {
        loop {
            if !self.members.signal(signal).await {
                return true;
            }
            tokio::select! {
                biased;
                () = clock.sleep_until(until) => return false,
                () = self.members.wait_ended(&mut self.child, clock) => {}
            }
        }
    }

    /// The exit status of the first process. Call it after [`end`](Self::end).
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        match self.child.try_wait()? {
            Some(status) => {
                self.is_over = true;
                Ok(status)
            }
            None => Err(io::Error::other("the process hangs in the kernel and cannot be killed")),
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

/// Kills the process if setting up [`Members`](platform::Members) fails.
struct Unguarded(Option<Pid>);

impl Drop for Unguarded {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            signal_group(leader, Signal::KILL);
        }
    }
}

fn signal_group(leader: Pid, signal: Signal) {
    // It can only fail because no process is left.
    let _ = kill_process_group(leader, signal);
    if signal == Signal::TERM {
        // A stopped process handles SIGTERM only after SIGCONT.
        let _ = kill_process_group(leader, Signal::CONT);
    }
}

#[cfg(target_os = "linux")]
mod platform {
    //! Pidfds report the end of each process, and `/proc` lists them.

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

    /// Rounds of listing and killing in `drop`, which cannot wait: a process may have forked between the list
    /// and the signal.
    const KILL_ROUNDS: usize = 4;

    /// Marks the command and all its future children, in the environment.
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

        /// Sends a signal to every live process; `false` if there is none.
        pub(crate) async fn signal(&mut self, signal: Signal) -> bool {
            let (leader, mark) = (self.leader, self.mark.clone());
            // On a blocking thread: reading a full `/proc` takes milliseconds. And before the signal: once a
            // process has ended, its descendants can no longer be recognized.
            let found = tokio::task::spawn_blocking(move || tree::alive(leader, &mark)).await;
            self.found = found.unwrap_or_default();
            signal_group(self.leader, signal);
            self.signal_found(signal);
            !self.found.is_empty()
        }

        /// Waits until every signalled process has ended.
        pub(crate) async fn wait_ended(&mut self, _child: &mut Child, _clock: &dyn Clock) {
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

        /// Group members have the signal from the group; SIGTERM is not repeated to them.
        fn signal_found(&self, signal: Signal) {
            for (pid, handle) in &self.found {
                let in_group = rustix::process::getpgid(Some(*pid)).is_ok_and(|group| group == self.leader);
                if !in_group || signal == Signal::KILL {
                    // It can only fail because the process has ended.
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
    //! Elsewhere only the process group is known, and whether it is empty can only be polled.

    use std::io;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, test_kill_process_group};
    use tokio::process::{Child, Command};
    use weaver_core::clock::Clock;

    use super::signal_group;

    const POLL_EVERY: Duration = Duration::from_millis(20);

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

        pub(crate) async fn wait_ended(&mut self, child: &mut Child, clock: &dyn Clock) {
            // Reaped here, or it would count as alive forever.
            while child.try_wait().is_err() || test_kill_process_group(self.0).is_ok() {
                clock.sleep_until(clock.monotonic().saturating_add(POLL_EVERY)).await;
            }
        }

        pub(crate) fn kill_now(&mut self) {
            signal_group(self.0, Signal::KILL);
        }
    }
}
