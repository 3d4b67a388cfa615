//! Limits of the kernel's own: no cgroup is needed, and so no permission to make one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::confine::Limits;

const MIB: u64 = 1024 * 1024;

pub(super) fn set(limits: &Limits) -> Result<(), String> {
    let all = [
        ("memory_max_mb", Resource::Data, limits.memory_max_mb.saturating_mul(MIB)),
        ("cpu_max_s", Resource::Cpu, limits.cpu_max_s),
        ("processes_max", Resource::Nproc, limits.processes_max),
        ("file_max_mb", Resource::Fsize, limits.file_max_mb.saturating_mul(MIB)),
        // A dump would hold what the command was given, and land in its directory or with a program of the
        // host's.
        ("core dumps", Resource::Core, 0),
    ];
    for (name, resource, wanted) in all {
        // Never more than there is already: only root could raise it.
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
        setrlimit(resource, limit)
            .map_err(|error| format!("the limit {name} = {wanted} cannot be set: {error}"))?;
    }
    Ok(())
}
