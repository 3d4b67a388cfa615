//! The first process of a cell: builds it, shuts itself in, runs the command, reaps, and ends what the
//! command left behind.

use std::io;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, set_child_subreaper, set_parent_process_death_signal, setsid};
use tokio::signal::unix::{SignalKind, signal};

use super::ends::{CANNOT_RUN, end_all, ended, one_thread};
use crate::confine::linux::{beneath, cell};
use crate::order::{Order, OrderFile};
use crate::run::StartError;
use crate::secrecy;

pub(super) fn main() -> u8 {
    let Ok(mut file) = OrderFile::of_stdin() else { return CANNOT_RUN };
    build(&mut file).unwrap_or_else(|error| {
        file.refuse(&error);
        CANNOT_RUN
    })
}

fn build(file: &mut OrderFile) -> Result<u8, StartError> {
    let failed = |error: io::Error| StartError::Cell(format!("the first process of the cell: {error}"));
    // Tied to the guard first: whatever happens from here on, nothing is left without one.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.into()))?;
    secrecy::forbid_inspection();
    let (order, stdin) = file.read().map_err(failed)?;
    let confinement =
        order.confinement.as_ref().ok_or_else(|| failed(io::Error::other("it has no confinement")))?;
    // A session of its own: signals to "my group" end here, and no terminal can be typed into.
    let _ = setsid(); // It fails only if this process leads one already.
    set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
    cell::enter(confinement).map_err(StartError::Cell)?;
    beneath::enter(&order).map_err(StartError::Program)?;
    let mut command = Command::new(&order.program);
    command.args(order.args()).env_clear().envs(order.env());
    command.stdin(stdin.map_or_else(std::process::Stdio::null, Into::into));
    // Descriptors that the server inherited when it was started, and the order's own.
    close_fds::set_fds_cloexec(3, &[]);
    let runtime = one_thread().map_err(failed)?;
    runtime.block_on(run(&order, command))
}

async fn run(order: &Order, mut command: Command) -> Result<u8, StartError> {
    let failed = |error: io::Error| StartError::Cell(format!("the first process of the cell: {error}"));
    let mut children = signal(SignalKind::child()).map_err(failed)?;
    let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let child = command.spawn().map_err(|error| {
        StartError::Program(format!(
            "{} cannot be run: {error} (a confined command sees the system and what is declared: \
             docs/operating/security.md)",
            order.program.display()
        ))
    })?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let code = ended(child, &mut children).await.map_err(failed)?;
    end_all(order.grace()).await;
    Ok(code)
}
