//! `/etc`: the files that programs need to resolve names, check certificates and know the time zone. No keys,
//! no passwords, no configuration of servers, including Weaver's.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::mounts::bind_read_only;
use crate::confine::Confinement;

/// Directories, bind-mounted read-only.
const DIRECTORIES: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "fonts",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.conf.d",
    "pki/ca-trust",
    "pki/tls/certs",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "ssl/certs",
    "terminfo",
    "perl",
];
/// Files, copied: some are symlinks to paths that a sandbox does not have, such as `resolv.conf`.
const FILES: &[&str] = &[
    "bash.bashrc",
    "debian_version",
    "gitconfig",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "npmrc",
    "os-release",
    "pip.conf",
    "profile",
    "protocols",
    "resolv.conf",
    "services",
    "shells",
    "ssl/openssl.cnf",
    "timezone",
    "lsb-release",
    "redhat-release",
    "alpine-release",
];
/// These files are small; a larger one is skipped.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

pub(super) fn fill(
    old: &Path,
    new: &Path,
    confinement: &Confinement,
    user: (u32, u32),
) -> Result<(), String> {
    let (from, to) = (old.join("etc"), new.join("etc"));
    fs::create_dir_all(&to).map_err(|error| format!("/etc: {error}"))?;
    for name in DIRECTORIES {
        let source = from.join(name);
        if source.is_dir() {
            bind_read_only(&source, &to.join(name))?;
        }
    }
    for name in FILES {
        copy(&from.join(name), &to.join(name), old).map_err(|error| format!("/etc/{name}: {error}"))?;
    }
    let (uid, gid) = user;
    let home = confinement.home.display();
    let accounts = [
        (
            "passwd",
            format!("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nweaver:x:{uid}:{gid}::{home}:/bin/sh\n"),
        ),
        ("group", format!("root:x:0:\nweaver:x:{gid}:\n")),
    ];
    for (name, text) in accounts {
        fs::write(to.join(name), text).map_err(|error| format!("/etc/{name}: {error}"))?;
    }
    Ok(())
}

/// A symlink into `/usr` stays a symlink, otherwise its target is copied. Missing and unreadable files are
/// skipped.
fn copy(source: &Path, target: &Path, old: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(source) else { return Ok(()) };
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let source = if found.is_symlink() {
        let link = fs::read_link(source)?;
        if link.starts_with("/usr") || link.starts_with("../usr") {
            return symlink(link, target);
        }
        // An absolute symlink is relative to the host's root, which is at `old` now.
        match link.strip_prefix("/") {
            Ok(inner) => old.join(inner),
            Err(_) => source.with_file_name(link),
        }
    } else {
        source.to_owned()
    };
    let is_small_file =
        fs::metadata(&source).is_ok_and(|found| found.is_file() && found.len() <= FILE_MAX_BYTES);
    if is_small_file && let Ok(content) = fs::read(&source) {
        fs::write(target, content)?;
    }
    Ok(())
}
