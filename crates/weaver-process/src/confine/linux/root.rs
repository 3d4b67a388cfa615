//! A new root directory of visible paths only; the old one is unmounted.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::{chdir, getgid, getuid, pivot_root};

use super::mounts::{SYSTEM, bind_file, bind_read_only, bind_writable, mount_new, remount, tmpfs};
use super::owners::owner_of;
use super::{devices, etc};
use crate::confine::{Confinement, NO_OVERLAY, Overlay};

/// Where the sandbox is built: every system has it, and its content stays reachable below [`OLD`].
const BASE: &str = "/tmp";
const NEW: &str = "/new";
const OLD: &str = "/old";
/// Private, empty and writable directories besides the home, with their modes.
const PRIVATE: &[(&str, &str)] = &[("tmp", "1777"), ("run", "1777"), ("var", "0755"), ("home", "0755")];

pub(super) fn enter(confinement: &Confinement, mapping: Option<&File>) -> Result<(), String> {
    let user = confinement.user.map_or((getuid().as_raw(), getgid().as_raw()), |user| (user.uid, user.gid));
    stage().map_err(|error| format!("the new root: {error}"))?;
    let (old, new) = (Path::new(OLD), Path::new(NEW));
    system(old, new)?;
    private(new, confinement, user)?;
    etc::fill(old, new, confinement, user)?;
    devices::fill(old, new, confinement)?;
    fs::create_dir_all(new.join("proc")).map_err(|error| format!("/proc: {error}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_new("proc", &new.join("proc"), flags, "")?;
    declared(old, new, confinement, mapping)?;
    masks(new, confinement)?;
    leave().map_err(|error| format!("cannot unmount the old root: {error}"))?;
    // The root itself is read-only.
    remount(Path::new("/"), MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)
        .map_err(|error| format!("cannot make the new root read-only: {error}"))
}

/// A tmpfs as root, with the old root below it. Not visible outside.
fn stage() -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    rustix::mount::mount(
        "weaver",
        BASE,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"mode=0755,size=64m",
    )?;
    let base = Path::new(BASE);
    for name in [NEW, OLD] {
        let path = base.join(name.trim_start_matches('/'));
        rustix::fs::mkdir(path, rustix::fs::Mode::from_raw_mode(0o755))?;
    }
    let new = base.join("new");
    mount_bind(&new, &new)?;
    pivot_root(BASE, base.join("old"))?;
    chdir("/")
}

/// The allow-list; symlinks stay symlinks (`/bin` is often one to `/usr/bin`).
fn system(old: &Path, new: &Path) -> Result<(), String> {
    for path in SYSTEM {
        let inner = path.trim_start_matches('/');
        let (source, target) = (old.join(inner), new.join(inner));
        match fs::symlink_metadata(&source) {
            Ok(found) if found.is_symlink() => {
                let link = fs::read_link(&source).and_then(|link| symlink(link, &target));
                link.map_err(|error| format!("{path}: {error}"))?;
            }
            Ok(found) if found.is_dir() => bind_read_only(&source, &target)?,
            _ => {}
        }
    }
    let sys = old.join("sys");
    if sys.is_dir() { bind_read_only(&sys, &new.join("sys")) } else { Ok(()) }
}

fn private(new: &Path, confinement: &Confinement, user: (u32, u32)) -> Result<(), String> {
    let size = confinement.limits.tmp_max_mb;
    for (name, mode) in PRIVATE {
        tmpfs(&new.join(name), size, mode, None)?;
    }
    let var_tmp = new.join("var/tmp");
    fs::create_dir(&var_tmp).map_err(|error| format!("/var/tmp: {error}"))?;
    fs::set_permissions(&var_tmp, std::os::unix::fs::PermissionsExt::from_mode(0o1777))
        .map_err(|error| format!("/var/tmp: {error}"))?;
    let home = &confinement.home;
    let is_given = confinement.writable.iter().any(|path| home.starts_with(path));
    if is_given { Ok(()) } else { tmpfs(&new.join(inner(home)), size, "0700", Some(user)) }
}

/// Outer paths first, so that inner ones are mounted into them.
fn declared(old: &Path, new: &Path, confinement: &Confinement, mapping: Option<&File>) -> Result<(), String> {
    let read_only = confinement.read_only.iter().map(|path| (path, false));
    let mut all: Vec<(&PathBuf, bool)> =
        read_only.chain(confinement.writable.iter().map(|path| (path, true))).collect();
    all.sort_by_key(|(path, is_writable)| (path.components().count(), *is_writable));
    for (path, is_writable) in all {
        let (source, target) = (resolved(old, path)?, new.join(inner(path)));
        if let Some(overlay) = confinement.overlay.as_ref().filter(|overlay| overlay.target == *path) {
            let failed = |error: String| format!("{NO_OVERLAY} at {}: {error}", path.display());
            layered(old, overlay, &target).map_err(failed)?;
        } else if source.is_file() {
            bind_file(&source, &target)?;
            if !is_writable {
                remount(&target, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        } else if is_writable {
            let is_foreign = confinement
                .user
                .is_some_and(|user| owner_of(&source).is_ok_and(|owner| owner.uid != user.uid));
            bind_writable(&source, &target, mapping.filter(|_| is_foreign))?;
        } else {
            bind_read_only(&source, &target)?;
        }
    }
    Ok(())
}

/// Mounts an overlay. Its marks are user attributes, because in a user namespace no others are allowed.
fn layered(old: &Path, overlay: &Overlay, target: &Path) -> Result<(), String> {
    let mut options = String::from("userxattr");
    for (name, path) in
        [("lowerdir", &overlay.lower), ("upperdir", &overlay.upper), ("workdir", &overlay.work)]
    {
        let found = resolved(old, path)?;
        // They separate the options and their parts.
        let plain = found.to_str().filter(|path| !path.contains([':', ',', '\\']));
        let plain = plain.ok_or_else(|| format!("{} has a colon, comma or backslash", path.display()))?;
        options += &format!(",{name}={plain}");
    }
    mount_new("overlay", target, MountFlags::NOSUID | MountFlags::NODEV, &options)
}

/// The current path of a host path: its symlinks are relative to the host's root, which is at `old`.
fn resolved(old: &Path, path: &Path) -> Result<PathBuf, String> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
    let shown = |error: rustix::io::Errno| format!("{}: {error}", path.display());
    let root = open(old, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(shown)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(&root, inner(path), flags, Mode::empty(), ResolveFlags::IN_ROOT).map_err(shown)?;
    let link = format!("/old/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
    fs::read_link(link).map_err(|error| format!("{}: {error}", path.display()))
}

/// Masks protected paths inside visible ones.
fn masks(new: &Path, confinement: &Confinement) -> Result<(), String> {
    for path in &confinement.hidden {
        let target = new.join(inner(path));
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_dir() => {
                tmpfs(&target, 1, "0000", None)?;
                remount(&target, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV)
                    .map_err(|error| format!("cannot mask {}: {error}", path.display()))?;
            }
            Ok(found) if found.is_file() => {
                mount_bind(new.join("dev/null"), &target)
                    .map_err(|error| format!("cannot mask {}: {error}", path.display()))?;
            }
            Ok(_) => return Err(format!("cannot mask {}: neither a file nor a directory", path.display())),
            Err(_) => {}
        }
    }
    Ok(())
}

fn leave() -> rustix::io::Result<()> {
    chdir(NEW)?;
    // Stacks the new root on the old one, which is then unmounted with everything below it.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

fn inner(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
