//! Dropping privileges, irrevocably: an unprivileged user without capabilities.

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{INSTEAD, namespaces};
use crate::confine::{Confinement, Mode, User};

pub(super) fn drop_all(confinement: &Confinement) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("cannot drop privileges: {error}");
    set_no_new_privs(true).map_err(failed)?;
    if confinement.mode == Mode::Namespaces || confinement.user.is_some() {
        empty_bounding_set();
    }
    if let Some(user) = confinement.user {
        become_user(user).map_err(|error| {
            format!("cannot change to user {}: {error}; run the server as root, or: {INSTEAD}", user.uid)
        })?;
        if confinement.mode == Mode::Namespaces {
            own_user_namespace(user);
            // A new user namespace starts with all capabilities again, over that namespace.
            empty_bounding_set();
        }
    }
    clear_ambient_capability_set().map_err(failed)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(failed)
}

fn empty_bounding_set() {
    for capability in CapabilitySet::all().iter() {
        // A kernel may know fewer. Failures are harmless: after `no_new_privs` no capability can be gained.
        let _ = remove_capability_from_bounding_set(capability);
    }
}

fn become_user(user: User) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Sandboxes of a server that runs as root share one user: with a user namespace each, a fork bomb in one
/// does not use up the process limit of the others.
fn own_user_namespace(user: User) {
    // After the change of user this process's files in /proc belong to root.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    if let Err(error) = namespaces::unshare_user(user.uid, user.gid) {
        eprintln!(
            "weaver: no user namespace ({error}): the limit on processes is shared by all commands of user {}",
            user.uid
        );
    }
}
