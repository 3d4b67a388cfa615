//! PID 1 of a sandbox: builds it, enters it, runs the command, reaps orphans, and ends the remaining
//! processes.

use std::io;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, set_child_subreaper, set_parent_process_death_signal, setsid};
use tokio::signal::unix::{SignalKind, signal};

use super::ends::{CANNOT_RUN, end_all, ended, one_thread};
use crate::confine::linux::{beneath, sandbox};
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
    let failed = |error: io::Error| StartError::Sandbox(format!("the first process of the sandbox: {error}"));
    // First of all: from here on the kernel kills this process when the guard ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.into()))?;
    secrecy::forbid_inspection();
    let (order, stdin) = file.read().map_err(failed)?;
    let confinement =
        order.confinement.as_ref().ok_or_else(|| failed(io::Error::other("it has no confinement")))?;
    // A session of its own: signals to the process group end here, and no terminal input can be injected.
    let _ = setsid(); // It fails only if this process leads one already.
    set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
    sandbox::enter(confinement).map_err(StartError::Sandbox)?;
    beneath::enter(&order).map_err(StartError::Program)?;
    let mut command = Command::new(&order.program);
    command.args(order.args()).env_clear().envs(order.env());
    command.stdin(stdin.map_or_else(std::process::Stdio::null, Into::into));
    // Descriptors that the server inherited, and the order's own.
    close_fds::set_fds_cloexec(3, &[]);
    let runtime = one_thread().map_err(failed)?;
    runtime.block_on(run(&order, command))
}

async fn run(order: &Order, mut command: Command) -> Result<u8, StartError> {
    let failed = |error: io::Error| StartError::Sandbox(format!("the first process of the sandbox: {error}"));
    let mut children = signal(SignalKind::child()).map_err(failed)?;
    let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let child = command.spawn().map_err(|error| {
        StartError::Program(format!(
            "cannot run {}: {error} (a confined command sees only the system and declared paths: \
             docs/operating/security.md)",
            order.program.display()
        ))
    })?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let code = ended(child, &mut children).await.map_err(failed)?;
    end_all(order.grace()).await;
    Ok(code)
}
