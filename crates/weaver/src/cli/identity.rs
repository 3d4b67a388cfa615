//! Who asks: the token that a server is shown.

use std::path::Path;

use url::{Host, Url};
use weaver_server::security::{RootTokenError, TokenText, read_root_token};

use crate::cli::demo;
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::wiring::{DYNAMODB_DIRECTORY, MEMORY_DIRECTORY, NODE_DIRECTORY, StoreUrl};

/// The token for the server at this address: the one that is set; else, for a server of this machine, the one in its store's
/// directory. That one can do anything, and is never shown to another machine.
pub(crate) fn token_for(address: &str, config: &Config) -> Result<Option<String>, Failure> {
    let set = config.text(keys::TOKEN);
    if !set.is_empty() {
        return Ok(Some(set.to_owned()));
    }
    if !is_this_machine(address) {
        return Ok(None);
    }
    Ok(root_token(config)?.map(|token| token.expose().to_owned()))
}

/// The file, beside the token, that says where the server listens that it is for.
const ADDRESS_FILE: &str = "server.address";

/// Leaves word of where the server listens whose token is in this directory. Only for telling several servers of one directory
/// apart, so a disk that does not take it is no reason to stop.
pub(crate) fn note_address(directory: &Path, address: &str) {
    let _ = std::fs::write(directory.join(ADDRESS_FILE), address);
}

/// The token that a server which was started in this directory left: in the store's directory, or that of a demo, or of a server
/// on a store that has no directory. Of the one that listens at the address of the settings, if it can be told; else of the first.
pub(crate) fn root_token(config: &Config) -> Result<Option<TokenText>, Failure> {
    let url = StoreUrl::parse(config.text(keys::STORE))?;
    let others = [MEMORY_DIRECTORY, NODE_DIRECTORY, DYNAMODB_DIRECTORY];
    let mut directories = vec![url.token_directory(), Path::new(demo::DIRECTORY)];
    directories.extend(others.iter().map(Path::new));
    let address = config.text(keys::SERVER).trim_end_matches('/');
    let is_there = |directory: &Path| {
        std::fs::read_to_string(directory.join(ADDRESS_FILE)).is_ok_and(|noted| noted == address)
    };
    directories.sort_by_key(|directory| !is_there(directory));
    for directory in directories {
        if let Some(token) = read_root_token(directory)? {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

fn is_this_machine(address: &str) -> bool {
    match Url::parse(address).as_ref().map(Url::host) {
        Ok(Some(Host::Domain(name))) => name == "localhost",
        Ok(Some(Host::Ipv4(address))) => address.is_loopback(),
        Ok(Some(Host::Ipv6(address))) => address.is_loopback(),
        _ => false,
    }
}

impl From<RootTokenError> for Failure {
    fn from(error: RootTokenError) -> Self {
        let exit = match &error {
            RootTokenError::Exposed { .. } => Exit::Refused,
            RootTokenError::NotAToken { .. } => Exit::Damaged,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for address in ["http://127.0.0.1:7117", "http://localhost/", "http://[::1]:1", "https://127.9.9.9"] {
            assert!(is_this_machine(address), "{address}");
        }
        let others = [
            "http://10.0.0.1",
            "http://127.0.0.1@example.org",
            "http://localhost.example.org",
            "http://0.0.0.0",
            "x",
        ];
        for address in others {
            assert!(!is_this_machine(address), "{address}");
        }
    }
}
