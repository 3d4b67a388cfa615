//! Which servers of this user there are: a file for each, in a directory that only the user reads and writes.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::{Host, Url};
use weaver_server::security::{read_private, write_private};

use super::places::{Places, make_private};
use crate::exit::Failure;

/// Longer than any registration; what is longer is none.
const FILE_MAX_BYTES: u64 = 64 * 1024;

/// A server that was started by this user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    /// Where it listens, as a URL.
    pub(crate) address: String,
    /// Its socket's whole path.
    pub(crate) socket: PathBuf,
    /// Its store, without a password.
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

    /// Writes it down, and removes those of servers that ended without a chance to do so. Returns the file.
    pub(crate) fn write(&self, places: &Places) -> Result<PathBuf, Failure> {
        make_private(&places.registrations, places.uid)?;
        for (file, found) in read_all(places) {
            // At our own socket there was another server, which is gone.
            let is_over = found.socket == self.socket || !found.answers();
            if found.host == self.host && is_over {
                let _ = fs::remove_file(file); // Commands pass over it if it stays.
            }
        }
        let file = places.registrations.join(format!("{}-{}.json", self.host, self.pid));
        let text = serde_json::to_vec_pretty(self).expect("texts and a number are always JSON");
        write_private(&file, &text)
            .map_err(|error| Failure::new(crate::exit::Exit::Failed, error.to_string()))?;
        Ok(file)
    }

    /// The servers of this user that answer on this machine, in the order of their addresses.
    pub(crate) fn living(places: &Places) -> Vec<Self> {
        let host = host();
        let mut found: Vec<_> = read_all(places)
            .into_iter()
            .map(|(_, registration)| registration)
            .filter(|registration| registration.host == host && registration.answers())
            .collect();
        found.sort_by(|a, b| a.address.cmp(&b.address).then(b.pid.cmp(&a.pid)));
        // One socket is one server, however often it was registered.
        found.dedup_by(|a, b| a.socket == b.socket);
        found
    }

    /// Whether this is the server at an address. Every name of this machine is as good as another.
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

/// Loopback; and "all addresses", which a server may listen on.
fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        None => false,
    }
}

/// What cannot be read is passed over: it must not keep commands from the servers that can be found.
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
