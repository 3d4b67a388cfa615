//! Registrations of this user's servers: a file each, in a directory that only the user can access.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::{Host, Url};
use weaver_server::security::{read_private, write_private};

use super::places::{Places, make_private};
use crate::exit::Failure;

/// Longer than any registration; larger files are ignored.
const FILE_MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) address: String,
    /// Absolute path.
    pub(crate) socket: PathBuf,
    /// URL without a password.
    pub(crate) store: String,
    pub(crate) pid: u32,
    /// The machine it runs on: a home directory may be shared by several.
    pub(crate) host: String,
}

impl Registration {
    pub(crate) fn new(address: &str, socket: &Path, store: String) -> Self {
        Self {
            address: address.to_owned(),
            socket: socket.to_owned(),
            store,
            pid: std::process::id(),
            host: host(),
        }
    }

    /// Writes the file, and removes those of servers that were killed. Returns its path.
    pub(crate) fn write(&self, places: &Places) -> Result<PathBuf, Failure> {
        make_private(&places.registrations, places.uid)?;
        for (file, found) in read_all(places) {
            // Another server at our socket has ended: we have bound it.
            let is_over = found.socket == self.socket || !found.answers();
            if found.host == self.host && is_over {
                let _ = fs::remove_file(file); // Best effort: commands ignore stale files.
            }
        }
        let file = places.registrations.join(format!("{}-{}.json", self.host, self.pid));
        let text = serde_json::to_vec_pretty(self).expect("texts and a number are always JSON");
        write_private(&file, &text)
            .map_err(|error| Failure::new(crate::exit::Exit::Failed, error.to_string()))?;
        Ok(file)
    }

    /// This user's servers on this machine that accept connections, by address.
    pub(crate) fn alive(places: &Places) -> Vec<Self> {
        let host = host();
        let mut found: Vec<_> = read_all(places)
            .into_iter()
            .map(|(_, registration)| registration)
            .filter(|registration| registration.host == host && registration.answers())
            .collect();
        found.sort_by(|a, b| a.address.cmp(&b.address).then(b.pid.cmp(&a.pid)));
        // One socket is one server, even if registered twice.
        found.dedup_by(|a, b| a.socket == b.socket);
        found
    }

    /// Whether this is the server at an address. All loopback names are equivalent.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        let (Ok(own), Ok(given)) = (Url::parse(&self.address), Url::parse(address)) else { return false };
        let is_same_place = own.host() == given.host() || (is_local(&own) && is_local(&given));
        is_same_place
            && own.scheme() == given.scheme()
            && own.port_or_known_default() == given.port_or_known_default()
    }

    fn answers(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }
}

/// Loopback, or the unspecified address that a server may listen on.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

/// Unreadable files are ignored: they must not hide the other servers.
fn read_all(places: &Places) -> Vec<(PathBuf, Registration)> {
    let Ok(entries) = fs::read_dir(&places.registrations) else { return Vec::new() };
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|file| {
            let content = read_private(&file, FILE_MAX_BYTES).ok().flatten()?;
            Some((file, serde_json::from_slice(&content).ok()?))
        })
        .collect()
}

fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_every_name_of_this_machine_and_by_its_port() {
        let server = Registration::new("http://127.0.0.1:7117", Path::new("/x.sock"), "memory:".to_owned());
        for same in
            ["http://127.0.0.1:7117", "http://127.0.0.1:7117/", "http://localhost:7117", "http://[::1]:7117/"]
        {
            assert!(server.is_at(same), "{same}");
        }
        for other in [
            "http://127.0.0.1:7118",
            "https://127.0.0.1:7117",
            "http://10.0.0.1:7117",
            "http://localhost.example.org:7117",
            "http://127.0.0.1:7117@example.org",
            "nonsense",
        ] {
            assert!(!server.is_at(other), "{other}");
        }
    }
}
