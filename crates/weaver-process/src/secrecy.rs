//! Protects this process's memory and environment from processes of the same user, and its descriptors from
//! its children.

/// Forbids `/proc/PID/environ`, `/proc/PID/mem`, `ptrace` and core dumps to all but root (`PR_SET_DUMPABLE`).
/// `exec` undoes it, so each program calls it itself; a guard only after it has created its namespaces,
/// because it makes `/proc/self/uid_map` root's.
pub fn forbid_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It cannot fail with this value; if it did, the namespaces would still protect.
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "PR_SET_DUMPABLE failed: processes of the same user can inspect this one");
        }
    }
}

/// Sets close-on-exec on descriptors that this process inherited; its own have it already.
pub fn keep_descriptors() {
    #[cfg(target_os = "linux")]
    close_fds::set_fds_cloexec(3, &[]);
}

/// Whether a process has `no_new_privs`, as every sandboxed command and its children do. True for a process
/// that has ended or is not visible.
pub fn is_restricted(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|value| value.trim() == "0"))
}
