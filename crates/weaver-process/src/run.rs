//! Child processes that leave nothing behind.
//!
//! ```text
//! run ── spawn in a process group of its own, marked in its environment
//!     ├─ pump   stdin in; stdout and stderr out, line by line, to the sink; the last of it is kept
//!     ├─ wait   for its end, or for being told to stop
//!     └─ end    SIGTERM to all that belongs to it, a grace, SIGKILL; until nothing is left
//! ```
//!
//! It knows nothing of tasks: whoever runs commands or prompts uses it alike. Dropping the future of [`run`]
//! kills everything at once, without a grace: a handler whose lease is lost must not go on (G2), and one that
//! was cancelled has stopped only when its processes have (G11).
//!
//! If this process itself dies by SIGKILL, its children go on, unless they were started under a guard
//! ([`ProcessSpec::guard`]): a process between the two that ends them (see [`crate::guard`]).

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

use crate::confine::Confinement;
use crate::group::Group;
use crate::output::{Output, Summary, pump};

/// How long output is waited for after all processes have ended: only one that hid from us can still hold the
/// pipe.
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
    /// If set, `current_dir` is this or below it and is entered without following links below it, so that
    /// another command cannot lead this one elsewhere meanwhile. Done by the guard.
    pub beneath: Option<PathBuf>,
    /// What it reads; nothing if not given.
    pub stdin: Option<Bytes>,
    /// How long it may take to end after SIGTERM.
    pub grace: Duration,
    /// How much of its output is passed on.
    pub limits: OutputLimits,
    /// The program whose guard stands between this process and the new one, so that the new one does not
    /// outlive this one and cannot hide from it: a binary that calls [`crate::guard::run_if_asked`]. Only on
    /// Linux.
    pub guard: Option<PathBuf>,
    /// What it may see and do. Needs a guard.
    pub confinement: Option<Confinement>,
}

/// How much of a process's output is passed on and kept. It may write more: the rest is read and dropped, so
/// that it never blocks.
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
    /// The SHA-256 of everything it wrote, both streams in order of arrival, before anything was cut.
    pub output_sha256: [u8; 32],
}

/// Why a guard did not start a command. It is what [`run`]'s error carries ([`StartError::of`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It cannot be confined as asked: nothing about the command itself.
    #[error("{0}")]
    Cell(String),
    /// The cell is there, and the program cannot be run in it.
    #[error("{0}")]
    Program(String),
}

impl StartError {
    /// The reason in an error of [`run`], if it is one of these.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Runs a process until it ends, or until `stop` resolves and everything it started has been ended. Either
/// way nothing of it is left: processes it started in the background are ended as well, also those that left
/// its group or were orphaned (on Linux). Each line goes to `sink` as it comes, byte for byte.
///
/// # Errors
/// If it cannot be started, or cannot be ended (it hangs in the kernel).
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
    if let Some(reason) = order.refusal() {
        return Err(io::Error::other(reason));
    }
    let Summary { tail, stdout_tail, output_bytes, output_sha256 } = output.lock().finish();
    Ok(Finished { status, told, tail, stdout_tail, output_bytes, output_sha256 })
}

/// What a guard answers through, if there is one.
#[cfg(target_os = "linux")]
struct Answer(Option<crate::order::OrderFile>);
#[cfg(not(target_os = "linux"))]
struct Answer;

impl Answer {
    #[cfg(target_os = "linux")]
    fn refusal(self) -> Option<StartError> {
        self.0.and_then(crate::order::OrderFile::refusal)
    }

    #[cfg(not(target_os = "linux"))]
    fn refusal(self) -> Option<StartError> {
        None
    }
}

fn command(spec: &ProcessSpec) -> io::Result<(Command, Answer)> {
    #[cfg(target_os = "linux")]
    if let Some(guard) = &spec.guard {
        return guarded(guard, spec);
    }
    if spec.confinement.is_some() {
        let reason = "commands are confined on Linux, by a guard, and there is none here; only `unconfined = true` would do";
        return Err(io::Error::other(StartError::Cell(reason.to_owned())));
    }
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&spec.current_dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if spec.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    #[cfg(target_os = "linux")]
    return Ok((command, Answer(None)));
    #[cfg(not(target_os = "linux"))]
    Ok((command, Answer))
}

/// The guard has nothing of the command's: it stays outside the cell.
#[cfg(target_os = "linux")]
fn guarded(guard: &std::path::Path, spec: &ProcessSpec) -> io::Result<(Command, Answer)> {
    let order = crate::order::OrderFile::write(spec)?;
    let mut command = Command::new(guard);
    command.arg(crate::guard::COMMAND).env_clear().current_dir("/");
    command.stdin(order.for_guard()?).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok((command, Answer(Some(order))))
}

/// Writes what the process is to read. One that does not read it is free not to.
async fn feed(stdin: Option<ChildStdin>, bytes: Option<Bytes>) {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes)
        && let Err(error) = stdin.write_all(&bytes).await
    {
        tracing::debug!(%error, "a process did not read all of its input");
    }
}
