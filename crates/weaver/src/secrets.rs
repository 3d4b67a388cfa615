//! Secrets are removed from the process environment before anything else is done.
//!
//! The initial environment of a process can be read as long as it lives (`/proc/PID/environ`, core dumps, `ps
//! e` of root), and is inherited. So a command that finds a secret there re-executes itself without it: the
//! value is passed in a memfd, which the second start reads and truncates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, memfd_create};
use weaver_process::secrecy;

/// The descriptor of the memfd, for the second start.
const DESCRIPTOR: &str = "WEAVER_SECRETS_DESCRIPTOR";
/// Always secret. A store URL is secret if it has a password.
const SECRET: &[&str] =
    &["WEAVER_TOKEN", "WEAVER_MERGE_WEBHOOK", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const STORE: &str = "WEAVER_STORE";

static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Removes secrets from the environment. Does not return if the process has to re-execute itself. Must be
/// called before threads are started.
pub(crate) fn scrub_environment() {
    let taken = match std::env::var(DESCRIPTOR) {
        Ok(number) => received(&number).unwrap_or_default(),
        Err(_) => {
            if let Err(error) = re_execute() {
                // Readable by root and, until `PR_SET_DUMPABLE` is set, by the same user.
                eprintln!("weaver: removing secrets from the environment failed: {error}");
            }
            BTreeMap::new()
        }
    };
    let _ = TAKEN.set(taken); // Called once.
    secrecy::keep_descriptors();
}

/// All variables, including the removed ones.
pub(crate) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let taken = TAKEN.get().into_iter().flatten().map(|(name, value)| (name.into(), value.into()));
    std::env::vars_os().filter(|(name, _)| name != DESCRIPTOR).chain(taken)
}

#[cfg(feature = "dynamodb")]
pub(crate) fn variable(name: &str) -> Option<String> {
    TAKEN.get().and_then(|taken| taken.get(name).cloned()).or_else(|| std::env::var(name).ok())
}

fn is_secret(name: &str, value: &str) -> bool {
    SECRET.contains(&name) || name == STORE && value.contains("://") && value.contains('@')
}

fn re_execute() -> io::Result<()> {
    let found: BTreeMap<String, String> =
        std::env::vars().filter(|(name, value)| is_secret(name, value) && !value.is_empty()).collect();
    if found.is_empty() || !cfg!(target_os = "linux") {
        return Ok(());
    }
    // Not close-on-exec: the second start reads it.
    let mut file = File::from(memfd_create("weaver-secrets", MemfdFlags::empty())?);
    file.write_all(&serde_json::to_vec(&found)?)?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    for name in found.keys() {
        command.env_remove(name);
    }
    command.args(arguments).env(DESCRIPTOR, file.as_raw_fd().to_string());
    Err(command.exec())
}

fn received(number: &str) -> io::Result<BTreeMap<String, String>> {
    // Through /proc: a bare number is not an owned descriptor.
    let number: u32 = number.parse().map_err(io::Error::other)?;
    let mut file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    file.set_len(0)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_url_is_a_secret_if_it_has_a_password() {
        assert!(is_secret("WEAVER_TOKEN", "x"));
        assert!(is_secret(STORE, "postgres://u:p@h/d") && !is_secret(STORE, "./weaver-data"));
        assert!(!is_secret("WEAVER_SERVER", "http://a@b"));
    }
}
