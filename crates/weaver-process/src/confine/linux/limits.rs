//! Resource limits by `setrlimit`: no cgroup, and so no permission to create one, is needed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::confine::Limits;

const MIB: u64 = 1024 * 1024;

pub(super) fn set(limits: &Limits) -> Result<(), String> {
    let all = [
        ("memory_max_mb", Resource::Data, limits.memory_max_mb.saturating_mul(MIB)),
        ("cpu_max_s", Resource::Cpu, limits.cpu_max_s),
        ("processes_max", Resource::Nproc, limits.processes_max),
        ("file_max_mb", Resource::Fsize, limits.file_max_mb.saturating_mul(MIB)),
        // A core dump would contain the command's input, and be written to its directory or piped to a
        // program of the host.
        ("core dumps", Resource::Core, 0),
    ];
    for (name, resource, wanted) in all {
        // Never above the current hard limit: only root could raise it.
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
        setrlimit(resource, limit)
            .map_err(|error| format!("cannot set the limit {name} = {wanted}: {error}"))?;
    }
    Ok(())
}
