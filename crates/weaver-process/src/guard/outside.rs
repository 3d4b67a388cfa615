//! The guard: outside the sandbox, between the server and the sandbox's PID 1.

use std::fs::File;
use std::io;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags, getpid, getppid, pidfd_open, set_child_subreaper};
use tokio::signal::unix::{SignalKind, signal};

use super::ends::{CANNOT_RUN, end_all, ended, one_thread, watch};
use super::{INIT, OWN_BINARY};
use crate::confine::Confinement;
use crate::confine::linux::{beneath, namespaces, owners};
use crate::order::{Order, OrderFile};
use crate::run::StartError;
use crate::{secrecy, tree};

pub(super) fn main() -> u8 {
    let mut file = match OrderFile::of_stdin() {
        Ok(file) => file,
        Err(error) => {
            eprintln!("weaver: weaver-guard is not for interactive use ({error})");
            return CANNOT_RUN;
        }
    };
    guard(&mut file).unwrap_or_else(|error| {
        file.refuse(&error);
        CANNOT_RUN
    })
}

fn guard(file: &mut OrderFile) -> Result<u8, StartError> {
    let failed = |error: io::Error| StartError::Sandbox(format!("the guard cannot start: {error}"));
    let (order, stdin) = file.read().map_err(failed)?;
    let mapping;
    let command = match &order.confinement {
        Some(confinement) => {
            mapping = mapped_owner(confinement).map_err(StartError::Sandbox)?;
            // Before the runtime: a user namespace needs a single-threaded process.
            namespaces::unshare_outside(confinement).map_err(StartError::Sandbox)?;
            init(file, mapping.as_ref()).map_err(failed)?
        }
        None => plain(&order, stdin).map_err(StartError::Program)?,
    };
    secrecy::forbid_inspection();
    let runtime = one_thread().map_err(failed)?;
    // The descriptor of a mapping stays open until PID 1 has it.
    runtime.block_on(supervise(&order, command))
}

/// The same binary as PID 1 of the sandbox. It reads the order itself.
fn init(file: &OrderFile, mapping: Option<&File>) -> io::Result<Command> {
    let mut command = Command::new(OWN_BINARY);
    command.arg(INIT).env_clear().envs(mapping.map(owners::variable)).stdin(file.for_guard()?);
    Ok(command)
}

/// The id mapping, if the command's directories belong to another user.
fn mapped_owner(confinement: &Confinement) -> Result<Option<File>, String> {
    let (Some(owner), Some(user)) = (owners::foreign_owner(confinement), confinement.user) else {
        return Ok(None);
    };
    let mapping = owners::mapping(owner, user);
    mapping
        .map(Some)
        .map_err(|error| format!("cannot map files of user {} to user {}: {error}", owner.uid, user.uid))
}

/// The command itself, unconfined: marked, so that the server finds descendants that leave its process group.
fn plain(order: &Order, stdin: Option<File>) -> Result<Command, String> {
    let mut command = Command::new(&order.program);
    command.args(order.args()).env_clear().envs(order.env());
    if let Some(mark) = std::env::var_os(tree::MARK_VARIABLE) {
        command.env(tree::MARK_VARIABLE, mark);
    }
    command.stdin(stdin.map_or_else(std::process::Stdio::null, Into::into));
    beneath::enter(order)?;
    Ok(command)
}

async fn supervise(order: &Order, mut command: Command) -> Result<u8, StartError> {
    let failed = |error: io::Error| StartError::Sandbox(format!("the guard failed: {error}"));
    let gone = || failed(io::Error::other("the server has ended"));
    let server = Pid::from_raw(order.supervisor).ok_or_else(gone)?;
    let server_ends = pidfd_open(server, PidfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    let server_ends = watch(server_ends).map_err(failed)?;
    if getppid() != Some(server) {
        return Err(gone());
    }
    set_child_subreaper(Some(getpid())).map_err(|error| failed(error.into()))?;
    // Before the command starts, so that its end is not missed. Signals for the command must not end the
    // guard.
    let mut children = signal(SignalKind::child()).map_err(failed)?;
    let _ignored = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let child = command.spawn().map_err(|error| match order.confinement {
        Some(_) => failed(error),
        None => StartError::Program(format!("cannot run {}: {error}", order.program.display())),
    })?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let code = tokio::select! {
        biased;
        code = ended(child, &mut children) => code.map_err(failed)?,
        died = server_ends.readable() => died.map(|_| CANNOT_RUN).map_err(failed)?,
    };
    end_all(order.grace()).await;
    Ok(code)
}
