//! Who the command is to the kernel: an unprivileged user without capabilities, for good.

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::{INSTEAD, namespaces};
use crate::confine::{Confinement, Mode, User};

pub(super) fn drop_all(confinement: &Confinement) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("privileges cannot be dropped: {error}");
    set_no_new_privs(true).map_err(failed)?;
    if confinement.mode == Mode::Namespaces || confinement.user.is_some() {
        empty_bounding_set();
    }
    if let Some(user) = confinement.user {
        become_user(user).map_err(|error| {
            format!(
                "the command cannot become user {}: {error}; run the server as root, or: {INSTEAD}",
                user.uid
            )
        })?;
        if confinement.mode == Mode::Namespaces {
            own_user_namespace(user);
            // In a user namespace of its own a process begins with all capabilities again, over that
            // namespace.
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
        // A kernel may know fewer. The rest is a second bolt: nothing can gain capabilities after
        // `no_new_privs`.
        let _ = remove_capability_from_bounding_set(capability);
    }
}

fn become_user(user: User) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Cells of one server that runs as root have one kernel user: in a user namespace each, a cell that forks
/// until it may not does not keep the others from forking.
fn own_user_namespace(user: User) {
    // The change of user made this process's own files in /proc root's.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    if let Err(error) = namespaces::unshare_user(user.uid, user.gid) {
        eprintln!(
            "weaver: no user namespace ({error}): the limit on processes is shared by all commands of user {}",
            user.uid
        );
    }
}
