//! Helpers for mounts.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::owners;
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount};

/// System directories that a command may read: programs and libraries. Not `/etc`, `/var`, `/opt`, `/srv` and
/// homes.
pub(super) const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// The list of mounts while the sandbox is built.
const MOUNTINFO: &str = "/old/proc/self/mountinfo";

/// Bind-mounts a directory and all mounts below it, read-only.
pub(super) fn bind_read_only(source: &Path, target: &Path) -> Result<(), String> {
    bind(source, target, MountFlags::RDONLY, None)
}

/// Bind-mounts a directory and all mounts below it; id-mapped if it belongs to another user.
pub(super) fn bind_writable(source: &Path, target: &Path, mapping: Option<&File>) -> Result<(), String> {
    bind(source, target, MountFlags::empty(), mapping)
}

/// Must come before mounts below `target`: nothing is ever created in a directory of the host.
fn bind(source: &Path, target: &Path, flags: MountFlags, mapping: Option<&File>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot bind-mount {}: {error}", source.display());
    fs::create_dir_all(target).map_err(failed)?;
    match mapping {
        Some(mapping) => owners::bind(source, target, mapping).map_err(|error| {
            format!(
                "{} belongs to another user and cannot be id-mapped ({error}); run as its owner",
                source.display()
            )
        })?,
        None => mount_bind_recursive(source, target).map_err(|error| failed(error.into()))?,
    }
    let list = fs::read(MOUNTINFO).map_err(failed)?;
    for (path, own) in mounted_below(&list, target) {
        remount(&path, own | flags | MountFlags::NOSUID | MountFlags::NODEV)
            .map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

pub(super) fn bind_file(source: &Path, target: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot bind-mount {}: {error}", source.display());
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    if !target.exists() {
        fs::write(target, "").map_err(failed)?;
    }
    mount_bind(source, target).map_err(|error| failed(error.into()))
}

/// Changes the flags of a mount, not of its file system.
pub(super) fn remount(target: &Path, flags: MountFlags) -> rustix::io::Result<()> {
    mount_remount(target, MountFlags::BIND | flags, c"")
}

/// A tmpfs of at most this size.
pub(super) fn tmpfs(
    target: &Path,
    size_mb: u64,
    mode: &str,
    owner: Option<(u32, u32)>,
) -> Result<(), String> {
    let owner = owner.map(|(uid, gid)| format!(",uid={uid},gid={gid}")).unwrap_or_default();
    let options = format!("mode={mode},size={size_mb}m{owner}");
    mount_new("tmpfs", target, MountFlags::NOSUID | MountFlags::NODEV, &options)
}

pub(super) fn mount_new(kind: &str, target: &Path, flags: MountFlags, options: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{kind} at {}: {error}", target.display());
    fs::create_dir_all(target).map_err(failed)?;
    let options = CString::new(options).map_err(|error| failed(error.into()))?;
    mount(kind, target, kind, flags, options.as_c_str()).map_err(|error| failed(error.into()))
}

/// The mounts at a path and below it, with the flags that must be kept: in a user namespace flags can be
/// added but not removed.
fn mounted_below(list: &[u8], top: &Path) -> Vec<(PathBuf, MountFlags)> {
    let lines = list.split(|byte| *byte == b'\n');
    let parsed = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let path = unescaped(fields.next()?);
        path.starts_with(top).then(|| (path, flags_of(fields.next().unwrap_or_default())))
    });
    parsed.collect()
}

fn flags_of(options: &[u8]) -> MountFlags {
    let known: [(&[u8], MountFlags); 7] = [
        (b"ro", MountFlags::RDONLY),
        (b"nosuid", MountFlags::NOSUID),
        (b"nodev", MountFlags::NODEV),
        (b"noexec", MountFlags::NOEXEC),
        (b"noatime", MountFlags::NOATIME),
        (b"nodiratime", MountFlags::NODIRATIME),
        (b"relatime", MountFlags::RELATIME),
    ];
    let words = options.split(|byte| *byte == b',');
    words.filter_map(|word| known.iter().find(|(name, _)| *name == word)).map(|(_, flag)| *flag).collect()
}

/// `mountinfo` escapes spaces and other characters as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn mounts_below_a_path_are_found_with_their_flags() {
        let list = b"22 1 8:1 / / rw,relatime - ext4 /dev/a rw\n\
            30 22 8:2 / /new/usr ro,nosuid,relatime shared:1 - ext4 /dev/b rw\n\
            31 30 8:3 / /new/usr/a\\040b rw,nodev,noexec - ext4 /dev/c rw\n\
            32 22 8:3 / /new/usrlocal rw - ext4 /dev/c rw\n";
        let found = mounted_below(list, Path::new("/new/usr"));
        let usr = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::RELATIME;
        let inner = MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(found, [("/new/usr".into(), usr), ("/new/usr/a b".into(), inner)]);
        assert_eq!(unescaped(b"/a\\134\\9").as_os_str().as_bytes(), b"/a\\\\9");
    }
}
