//! Which addresses may be served, and how.

use std::net::SocketAddr;

/// Why an address is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindRefused {
    /// Anybody who reaches it would be an admin.
    #[error(
        "not listening on {address}: others than this machine can reach it, and tokens are switched off, so anybody \
         could do anything; switch tokens on, or listen on 127.0.0.1"
    )]
    NoTokens {
        /// The address.
        address: SocketAddr,
    },
    /// Tokens would cross the network in the clear.
    #[error(
        "not listening on {address}: others than this machine can reach it, and without TLS their tokens cross the \
         network in the clear; give a certificate and its key, or --behind-proxy if a proxy in front does TLS, or \
         listen on 127.0.0.1"
    )]
    NoTls {
        /// The address.
        address: SocketAddr,
    },
    /// A proxy lets in whom it likes, and all of them seem to come from this machine.
    #[error(
        "not listening on {address} behind a proxy without tokens: whoever reaches the proxy could do anything; \
         switch tokens on, or leave out --behind-proxy"
    )]
    ProxyWithoutTokens {
        /// The address.
        address: SocketAddr,
    },
}

/// Whether an address may be served. This machine's own (`127.0.0.0/8`, `::1`) always, except for a proxy
/// that would let the world in without tokens; any other with tokens, and TLS either here or in a proxy in
/// front.
pub fn check_listen(
    address: SocketAddr,
    tokens_enabled: bool,
    tls: bool,
    behind_proxy: bool,
) -> Result<(), BindRefused> {
    // `::ffff:127.0.0.1` is this machine too, and `::ffff:0.0.0.0` everybody.
    let is_local = address.ip().to_canonical().is_loopback();
    match (is_local, tokens_enabled) {
        (true, false) if behind_proxy => Err(BindRefused::ProxyWithoutTokens { address }),
        (true, _) => Ok(()),
        (false, false) => Err(BindRefused::NoTokens { address }),
        (false, true) if tls || behind_proxy => Ok(()),
        (false, true) => Err(BindRefused::NoTls { address }),
    }
}
