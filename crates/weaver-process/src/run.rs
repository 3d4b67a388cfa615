//! Child processes, ended with all their descendants.
//!
//! ```text
//! run ── spawn in a process group of its own, marked in its environment
//!     ├─ pump   stdin in; stdout and stderr out, line by line, to the sink; the tail is kept
//!     ├─ wait   for its end, or for `stop`
//!     └─ end    SIGTERM to all its processes, a grace period, SIGKILL; until none is left
//! ```
//!
//! It is independent of tasks: commands, checks and prompts use it alike.
//!
//! Dropping the future of [`run`] kills everything at once, without a grace period: a handler whose lease is
//! lost must not continue (G2), and a cancelled one has stopped only when its processes have (G11).
//!
//! If this process itself is killed by SIGKILL, its children continue, unless they run under a guard
//! ([`ProcessSpec::guard`]): a process in between that ends them (see [`crate::guard`]).

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join3;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use weaver_core::clock::Clock;

use crate::confine::{Confinement, NO_OVERLAY};
use crate::group::Group;
use crate::output::{Output, Summary, pump};

/// How long to wait for output after all processes have ended: only a process that escaped can still hold the
/// pipe.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A process to run.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The program: an absolute path. There is no search, and never a shell.
    pub program: PathBuf,
    /// Its arguments, without `argv[0]`.
    pub args: Vec<OsString>,
    /// Its complete environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory: an absolute path.
    pub current_dir: PathBuf,
    /// If set, `current_dir` is this or below it and is entered without following symlinks below it, so that
    /// another command cannot redirect this one (TOCTOU). Done by the guard.
    pub beneath: Option<PathBuf>,
    /// Its standard input; `/dev/null` if `None`.
    pub stdin: Option<Bytes>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Limits of the output that is passed on.
    pub limits: OutputLimits,
    /// The binary of the guard, a process in between that ends the command when this process ends, and keeps
    /// it from escaping. It calls [`crate::guard::run_if_asked`]. Linux only.
    pub guard: Option<PathBuf>,
    /// The command's confinement; needs a guard. `None`: it runs unconfined.
    pub confinement: Option<Confinement>,
}

/// How much of a process's output is passed on and kept. The rest is read and dropped, so that the process
/// never blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// To the sink, both streams together. Default: 1 MiB.
    pub total_bytes: usize,
    /// In one line; a longer one is split. Default: 4 KiB.
    pub line_bytes: usize,
    /// Of the tails that [`Finished`] has. Default: 8 KiB.
    pub tail_bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { total_bytes: 1024 * 1024, line_bytes: 4 * 1024, tail_bytes: 8 * 1024 }
    }
}

/// The stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// File descriptor 1 of the process.
    Stdout,
    /// File descriptor 2 of the process.
    Stderr,
}

/// The result of [`run`].
#[derive(Debug)]
pub struct Finished<T> {
    /// The exit status of the process; under a guard, 128 + signal as an exit code.
    pub status: ExitStatus,
    /// The value of `stop`, if it resolved before the process ended.
    pub stopped_by: Option<T>,
    /// The tail of its output, both streams in order of arrival; invalid UTF-8 is replaced.
    pub tail: String,
    /// The tail of its standard output only.
    pub stdout_tail: String,
    /// The size of its whole output, on both streams.
    pub output_bytes: u64,
    /// The SHA-256 of its whole output, both streams in order of arrival.
    pub output_sha256: [u8; 32],
}

/// Why a guard did not start a command. It is inside [`run`]'s error ([`StartError::of`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The sandbox cannot be built: a problem of the machine or the rules, not of the command.
    #[error("{0}")]
    Sandbox(String),
    /// The program cannot be run in the sandbox.
    #[error("{0}")]
    Program(String),
}

impl StartError {
    /// The start error inside an error of [`run`], if there is one.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether it is about the overlay: without one, the command may start.
    pub fn is_about_overlay(&self) -> bool {
        matches!(self, Self::Sandbox(problem) if problem.starts_with(NO_OVERLAY))
    }
}

/// Runs a process until it ends, or until `stop` resolves and all its processes have ended. Either way none
/// of its processes is left: background processes are ended too, on Linux also those that left its process
/// group or were orphaned. Each line goes to `sink` as it arrives, byte for byte.
///
/// # Errors
/// If it cannot be started, or cannot be killed (it hangs in the kernel).
pub async fn run<T>(
    spec: &ProcessSpec,
    clock: &dyn Clock,
    sink: impl FnMut(Stream, &[u8]) + Send,
    stop: impl Future<Output = T>,
) -> io::Result<Finished<T>> {
    let (command, order) = command(spec)?;
    let mut group = Group::spawn(command)?;
    let output = Mutex::new(Output::new(spec.limits, sink));
    let (stdin, stdout, stderr) = group.pipes();
    let mut pumping = pin!(join3(
        feed(stdin, spec.stdin.clone()),
        pump(stdout, Stream::Stdout, &output),
        pump(stderr, Stream::Stderr, &output),
    ));
    let mut is_drained = false;
    let stopped_by = {
        let (mut exited, mut stop) = (pin!(group.exited()), pin!(stop));
        loop {
            tokio::select! {
                biased;
                result = &mut exited => break result.map(|()| None)?,
                signal = &mut stop => break Some(signal),
                _ = &mut pumping, if !is_drained => is_drained = true,
            }
        }
    };
    {
        let mut ending = pin!(group.end(clock, spec.grace));
        loop {
            tokio::select! {
                biased;
                () = &mut ending => break,
                _ = &mut pumping, if !is_drained => is_drained = true,
            }
        }
    }
    if !is_drained {
        tokio::select! {
            biased;
            _ = &mut pumping => {}
            () = clock.sleep_until(clock.monotonic().saturating_add(DRAIN_MAX)) => {}
        }
    }
    let status = group.reap().await?;
    if let Some(reason) = order.refusal() {
        return Err(io::Error::other(reason));
    }
    let Summary { tail, stdout_tail, output_bytes, output_sha256 } = output.lock().finish();
    Ok(Finished { status, stopped_by, tail, stdout_tail, output_bytes, output_sha256 })
}

/// The guard's reply, if there is a guard.
#[cfg(target_os = "linux")]
struct GuardReply(Option<crate::order::OrderFile>);
#[cfg(not(target_os = "linux"))]
struct GuardReply;

impl GuardReply {
    #[cfg(target_os = "linux")]
    fn refusal(self) -> Option<StartError> {
        self.0.and_then(crate::order::OrderFile::refusal)
    }

    #[cfg(not(target_os = "linux"))]
    fn refusal(self) -> Option<StartError> {
        None
    }
}

fn command(spec: &ProcessSpec) -> io::Result<(Command, GuardReply)> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = &spec.guard {
        return guarded(guard, spec);
    }
    if spec.confinement.is_some() {
        let reason = "confinement needs Linux and a guard, and there is none here; `unconfined = true` runs it without";
        return Err(io::Error::other(StartError::Sandbox(reason.to_owned())));
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&spec.current_dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if spec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    #[cfg(target_os = "linux")]
    return Ok((command, GuardReply(None)));
    #[cfg(not(target_os = "linux"))]
    Ok((command, GuardReply))
}

/// The guard gets neither arguments nor environment of the command: it stays outside the sandbox.
#[cfg(target_os = "linux")]
fn guarded(guard: &std::path::Path, spec: &ProcessSpec) -> io::Result<(Command, GuardReply)> {
    let order = crate::order::OrderFile::write(spec)?;
    let mut command = Command::new(guard);
    command.arg(crate::guard::COMMAND).env_clear().current_dir("/");
    command.stdin(order.for_guard()?).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok((command, GuardReply(Some(order))))
}

/// Writes the standard input. A process that does not read all of it is not an error.
async fn feed(stdin: Option<ChildStdin>, bytes: Option<Bytes>) {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes)
        && let Err(error) = stdin.write_all(&bytes).await
    {
        tracing::debug!(%error, "the process did not read all of its input");
    }
}
