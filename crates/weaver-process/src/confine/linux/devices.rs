//! `/dev`: the devices every program needs, private terminals and private shared memory.

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::MountFlags;

use super::mounts::{bind_file, mount_new, tmpfs};
use crate::confine::Confinement;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

pub(super) fn fill(old: &Path, new: &Path, confinement: &Confinement) -> Result<(), String> {
    let dev = new.join("dev");
    tmpfs(&dev, 1, "0755", None)?;
    for device in DEVICES {
        let source = old.join("dev").join(device);
        if source.exists() {
            bind_file(&source, &dev.join(device))?;
        }
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name)).map_err(|error| format!("/dev/{name}: {error}"))?;
    }
    tmpfs(&dev.join("shm"), confinement.limits.tmp_max_mb, "1777", None)?;
    // Few programs need terminals: a kernel that refuses devpts is no reason to fail.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    if mount_new("devpts", &dev.join("pts"), flags, "newinstance,ptmxmode=0666,mode=0620").is_ok() {
        symlink("pts/ptmx", dev.join("ptmx")).map_err(|error| format!("/dev/ptmx: {error}"))?;
    }
    Ok(())
}
