//! What is this process's own stays its own: its memory and environment among processes of the same user, its
//! descriptors among its children.

/// Forbids `/proc/PID/environ`, `/proc/PID/mem`, `ptrace` and core dumps to all but root. `exec` undoes it,
/// so each program calls it itself; a guard only after it has made its namespaces, because it makes
/// `/proc/self/uid_map` root's.
pub fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It cannot fail with this value; and if it did, the namespaces are still there.
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "PR_SET_DUMPABLE failed: processes of the same user can inspect this one");
        }
    }
}

/// Keeps descriptors that this process inherited from the programs it starts; its own are kept from them
/// already.
pub fn keep_descriptors() {
    #[cfg(target_os = "linux")]
    close_fds::set_fds_cloexec(3, &[]);
}

/// Whether a process can never gain privileges (`no_new_privs`): every command in a cell, and what it starts.
/// A process that is gone, or cannot be seen, counts as one.
pub fn is_restricted(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|value| value.trim() == "0"))
}
