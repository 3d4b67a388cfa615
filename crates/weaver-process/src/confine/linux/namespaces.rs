//! Creating namespaces.

use std::fs;

use rustix::process::{getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};

use super::INSTEAD;
use crate::confine::{Confinement, Mode, Network};

/// Capabilities that PID 1 needs to build the sandbox; it drops all of them before the command starts.
const FOR_BUILDING: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// Called by the guard: its next child is PID 1 of a new PID namespace and may mount there. As root there is
/// no user namespace yet: the command becomes another user first (`privileges.rs`), which a namespace of root
/// could not map to.
pub(crate) fn unshare_outside(confinement: &Confinement) -> Result<(), String> {
    if confinement.mode != Mode::Namespaces {
        return Ok(());
    }
    let refused = |what: &str, error: std::io::Error| {
        format!("cannot create {what} on this machine ({error}); {INSTEAD}")
    };
    if confinement.user.is_some() {
        return unshare(UnshareFlags::NEWPID).map_err(|error| refused("a PID namespace", error));
    }
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWPID)
        .map_err(|error| refused("user and PID namespaces", error))?;
    map_to_itself(uid, gid).map_err(|error| refused("a mapping of the user", error))?;
    keep_capabilities().map_err(|error| refused("a process with CAP_SYS_ADMIN", error))
}

/// Called by PID 1 of the sandbox.
pub(super) fn unshare_inside(confinement: &Confinement) -> Result<(), String> {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    if confinement.network == Network::Off {
        flags |= UnshareFlags::NEWNET;
    }
    unshare(flags)
        .map_err(|error| format!("cannot create mount, IPC and network namespaces ({error}); {INSTEAD}"))
}

/// A user namespace for its id mapping only, which is written from outside.
pub(crate) fn unshare_for_mapping() -> std::io::Result<()> {
    unshare(UnshareFlags::NEWUSER)
}

/// A user namespace with an identity mapping: limits per user (`RLIMIT_NPROC`) are then counted per sandbox.
pub(super) fn unshare_user(uid: u32, gid: u32) -> std::io::Result<()> {
    unshare(UnshareFlags::NEWUSER)?;
    map_to_itself(uid, gid)
}

#[expect(
    deprecated,
    reason = "its successor is `unsafe` for what it can do to other threads; this process has one"
)]
fn unshare(flags: UnshareFlags) -> std::io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

fn map_to_itself(uid: u32, gid: u32) -> std::io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// In a new user namespace `exec` drops the capabilities of every user but its root, except ambient ones.
fn keep_capabilities() -> std::io::Result<()> {
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable: FOR_BUILDING })?;
    for capability in FOR_BUILDING.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
