//! Secrets of the environment: taken out of it before anything else is done.
//!
//! A process's first environment can be read as long as it lives (`/proc/PID/environ`, core dumps, `ps e` of
//! root), and is inherited. So a command that finds a secret there starts itself again without it: the value
//! travels in a file in memory, which the second start reads and empties.

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

/// Names the descriptor for the second start.
const DESCRIPTOR: &str = "WEAVER_SECRETS_DESCRIPTOR";
/// Secrets by their nature. A store's URL is one if it has a password in it.
const SECRET: &[&str] =
    &["WEAVER_TOKEN", "WEAVER_MERGE_WEBHOOK", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const STORE: &str = "WEAVER_STORE";

/// What was taken out of the environment.
static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Takes secrets out of the environment. Does not return if the process has to start again for it. To be
/// called before there are threads.
pub(crate) fn leave_environment() {
    let taken = match std::env::var(DESCRIPTOR) {
        Ok(number) => received(&number).unwrap_or_default(),
        Err(_) => {
            if let Err(error) = start_again() {
                // They stay where they were: readable to root and, until `PR_SET_DUMPABLE` is set, to the
                // same user.
                eprintln!("weaver: secrets stay in the environment: {error}");
            }
            BTreeMap::new()
        }
    };
    let _ = TAKEN.set(taken); // Once: this is called once.
    secrecy::keep_descriptors();
}

/// All variables, those that were taken out among them.
pub(crate) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    let taken = TAKEN.get().into_iter().flatten().map(|(name, value)| (name.into(), value.into()));
    std::env::vars_os().filter(|(name, _)| name != DESCRIPTOR).chain(taken)
}

/// One of them.
#[cfg(feature = "dynamodb")]
pub(crate) fn variable(name: &str) -> Option<String> {
    TAKEN.get().and_then(|taken| taken.get(name).cloned()).or_else(|| std::env::var(name).ok())
}

fn is_secret(name: &str, value: &str) -> bool {
    SECRET.contains(&name) || name == STORE && value.contains("://") && value.contains('@')
}

fn start_again() -> io::Result<()> {
    let found: BTreeMap<String, String> =
        std::env::vars().filter(|(name, value)| is_secret(name, value) && !value.is_empty()).collect();
    if found.is_empty() || !cfg!(target_os = "linux") {
        return Ok(());
    }
    // Inherited, on purpose: the second start reads it.
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
    // By way of /proc: a number alone is no descriptor of ours to close.
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
