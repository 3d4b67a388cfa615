//! `/etc`: what programs need to resolve names, check certificates and know the time zone. Not what the
//! machine is kept with: no keys, no passwords, no configuration of servers, Weaver's among them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::mounts::bind_read_only;
use crate::confine::Confinement;

/// Directories, shown as they are.
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
/// Files, copied: some are links to places that a cell does not have, as `resolv.conf` is.
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
/// A file of these is a few pages; what is larger is something else.
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

/// A link stays one if it leads into the system, else what it leads to is copied. What is not there, or not
/// for everybody, is left out.
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
        // An absolute link counts from the host's root, which is not ours any more.
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
