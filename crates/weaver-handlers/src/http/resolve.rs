//! The only resolver of names; it returns vetted addresses only. The client connects to exactly the addresses
//! that were checked, so DNS rebinding does not work.

use std::net::{IpAddr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use weaver_core::network::Network;

use crate::address::refusal;

/// The operator's policy does not allow this host.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` is {kind}, which `http.allow_networks` does not allow")]
pub(super) struct Refused {
    host: String,
    kind: &'static str,
}

/// The client's only resolver.
pub(super) struct Vetting {
    allowed: Vec<Network>,
}

impl Vetting {
    pub(super) fn new(allowed: Vec<Network>) -> Self {
        Self { allowed }
    }
}

impl Resolve for Vetting {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.allowed.clone();
        Box::pin(async move {
            let host = name.as_str();
            // The client sets the URL's port.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            let refused = found.iter().find_map(|address| refusal(address.ip(), &allowed));
            let vetted: Vec<_> =
                found.into_iter().filter(|address| refusal(address.ip(), &allowed).is_none()).collect();
            match refused {
                Some(kind) if vetted.is_empty() => Err(Refused { host: host.to_owned(), kind }.into()),
                _ => Ok(Box::new(vetted.into_iter()) as Addrs),
            }
        })
    }
}

/// Checks what the resolver does not see: the scheme, a user name, and a literal address. `Url` has already
/// normalized every spelling of an IPv4 address (`0x7f.1`, `2130706433`).
pub(super) fn check(url: &Url, allowed: &[Network]) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("scheme `{}` is not allowed: use `http` or `https`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user name or a password: use an `Authorization` header".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let Ok(address) = literal.parse::<IpAddr>() else { return Ok(()) };
    match refusal(address, allowed) {
        Some(kind) => Err(Refused { host: host.to_owned(), kind }.to_string()),
        None => Ok(()),
    }
}

/// The resolver's refusal, if it caused the error.
pub(super) fn refused(error: &reqwest::Error) -> Option<&Refused> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_address_is_refused_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1:8080/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://127.0.0.1./",
            "http://①②⑦.⓪.⓪.①/",
        ] {
            assert!(check(&Url::parse(url).unwrap(), &[]).is_err(), "{url}");
        }
    }

    #[test]
    fn other_schemes_and_user_names_are_refused() {
        for url in
            ["file:///etc/passwd", "ftp://example.org/", "http://user@example.org/", "http://:p@example.org/"]
        {
            assert!(check(&Url::parse(url).unwrap(), &[]).is_err(), "{url}");
        }
        assert_eq!(check(&Url::parse("https://example.org/?q=a@b").unwrap(), &[]), Ok(()));
    }
}
