//! Which addresses the server may listen on: beyond loopback only with tokens and TLS.

use std::net::SocketAddr;

/// Why the server does not listen on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindRefused {
    /// Every client that can reach it would be an admin.
    #[error(
        "refusing to listen on {address} without tokens: every client that can reach it would be an admin; \
         enable tokens, or listen on 127.0.0.1"
    )]
    NoTokens {
        /// Not a loopback address.
        address: SocketAddr,
    },
    /// Tokens would cross the network unencrypted.
    #[error(
        "refusing to listen on {address} without TLS: tokens would cross the network unencrypted; configure \
         a certificate and its key, or use --behind-proxy if a proxy terminates TLS, or listen on 127.0.0.1"
    )]
    NoTls {
        /// Not a loopback address.
        address: SocketAddr,
    },
    /// Behind a local proxy every client seems to be on this machine.
    #[error(
        "refusing to listen on {address} behind a proxy without tokens: every client of the proxy would be \
         an admin; enable tokens, or omit --behind-proxy"
    )]
    ProxyWithoutTokens {
        /// On loopback, where the proxy is.
        address: SocketAddr,
    },
}

/// Whether the server may listen on an address. Loopback (`127.0.0.0/8`, `::1`) always, except behind a proxy
/// without tokens; any other only with tokens, and with TLS here or in the proxy.
pub fn check_listen(
    address: SocketAddr,
    tokens_enabled: bool,
    tls: bool,
    behind_proxy: bool,
) -> Result<(), BindRefused> {
    // `::ffff:127.0.0.1` is loopback too, and `::ffff:0.0.0.0` is every address.
    let is_local = address.ip().to_canonical().is_loopback();
    match (is_local, tokens_enabled) {
        (true, false) if behind_proxy => Err(BindRefused::ProxyWithoutTokens { address }),
        (true, _) => Ok(()),
        (false, false) => Err(BindRefused::NoTokens { address }),
        (false, true) if tls || behind_proxy => Ok(()),
        (false, true) => Err(BindRefused::NoTls { address }),
    }
}
