//! Child processes that leave nothing behind.
//!
//! ```text
//! run ── spawn in a process group of its own, marked in its environment
//!     ├─ pump   stdin in; stdout and stderr out, line by line, to the sink; the last of it is kept
//!     ├─ wait   for its end, or for being told to stop
//!     └─ end    SIGTERM to all that belongs to it, a grace, SIGKILL; until nothing is left
//! ```
//!
//! It knows nothing of tasks: whoever runs commands or prompts uses it alike. Dropping the future of [`run`] kills
//! everything at once, without a grace: a handler whose lease is lost must not go on (G2), and one that was cancelled has
//! stopped only when its processes have (G11).
//!
//! If this process itself dies by SIGKILL, its children go on, unless they were started under a guard
//! ([`ProcessSpec::guard`]): a process between the two that ends them (see [`crate::guard`]).

mod group;
mod output;
#[cfg(target_os = "linux")]
pub(crate) mod tree;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join3;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use weaver_core::clock::Clock;

use crate::guard;
use group::Group;
use output::{Output, pump};

/// How long output is waited for after all processes have ended: only one that hid from us can still hold the pipe.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The program: an absolute path. There is no search, and never a shell.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// All of its environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub current_dir: PathBuf,
    /// What it reads; nothing if not given.
    pub stdin: Option<Bytes>,
    /// How long it may take to end after SIGTERM.
    pub grace: Duration,
    /// How much of its output is passed on.
    pub limits: OutputLimits,
    /// The program whose guard stands between this process and the new one, so that the new one does not outlive this one
    /// and cannot hide from it: a binary that calls [`crate::guard::main`]. Only on Linux.
    pub guard: Option<PathBuf>,
}

/// How much of a process's output is passed on and kept. It may write more: the rest is read and dropped, so that it
/// never blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// To the sink, both streams together.
    pub total_bytes: usize,
    /// In one line; a longer one becomes several.
    pub line_bytes: usize,
    /// The last of both streams, kept for the result.
    pub tail_bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { total_bytes: 1024 * 1024, line_bytes: 4 * 1024, tail_bytes: 8 * 1024 }
    }
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished<T> {
    /// How the process itself ended.
    pub status: ExitStatus,
    /// What `stop` said, if the process was told to stop before it ended by itself.
    pub told: Option<T>,
    /// The end of its output, both streams in order of arrival; what is no UTF-8 is replaced.
    pub tail: String,
    /// The end of its standard output alone.
    pub stdout_tail: String,
    /// How much it wrote.
    pub output_bytes: u64,
}

/// Runs a process until it ends, or until `stop` resolves and everything it started has been ended. Either way nothing of
/// it is left: processes it started in the background are ended as well, also those that left its group or were orphaned
/// (on Linux). Each line goes to `sink` as it comes, byte for byte.
///
/// # Errors
/// If it cannot be started, or cannot be ended (it hangs in the kernel).
pub async fn run<T>(
    spec: &ProcessSpec,
    clock: &dyn Clock,
    sink: impl FnMut(Stream, &[u8]) + Send,
    stop: impl Future<Output = T>,
) -> io::Result<Finished<T>> {
    let mut group = Group::spawn(command(spec))?;
    let output = Mutex::new(Output::new(spec.limits, sink));
    let (stdin, stdout, stderr) = group.pipes();
    let mut pumping = pin!(join3(
        feed(stdin, spec.stdin.clone()),
        pump(stdout, Stream::Stdout, &output),
        pump(stderr, Stream::Stderr, &output),
    ));
    let mut is_drained = false;
    let told = {
        let (mut exited, mut stop) = (pin!(group.exited()), pin!(stop));
        loop {
            tokio::select! {
                biased;
                result = &mut exited => break result.map(|()| None)?,
                told = &mut stop => break Some(told),
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
    let (tail, stdout_tail, output_bytes) = output.lock().finish();
    Ok(Finished { status, told, tail, stdout_tail, output_bytes })
}

fn command(spec: &ProcessSpec) -> Command {
    let mut command = match &spec.guard {
        Some(guard) if cfg!(target_os = "linux") => guarded(guard, spec),
        _ => Command::new(&spec.program),
    };
    command.args(&spec.args).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&spec.current_dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if spec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command
}

fn guarded(guard: &Path, spec: &ProcessSpec) -> Command {
    let mut command = Command::new(guard);
    command.arg(guard::COMMAND).arg(std::process::id().to_string());
    command.arg(spec.grace.as_millis().to_string()).arg(&spec.program);
    command
}

/// Writes what the process is to read. One that does not read it is free not to.
async fn feed(stdin: Option<ChildStdin>, bytes: Option<Bytes>) {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes)
        && let Err(error) = stdin.write_all(&bytes).await
    {
        tracing::debug!(%error, "a process did not read all of its input");
    }
}
