//! The client's address.
//!
//! Without `--behind-proxy` no header is trusted: it is the connection's peer address.
//!
//! With it, and on a connection of a trusted proxy, it is the *last* entry of the last `X-Forwarded-For`, the
//! one that our own proxy wrote; a client can invent the entries before it. (From all other connections the
//! server removes the header.)
//!
//! It is used for the rate limit on failed tokens and for the log, never for authentication. `Forwarded`,
//! `X-Real-IP`, `X-Forwarded-Host` and `X-Forwarded-Proto` are never read: the proxy must pass `Host` on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Extensions, HeaderMap};
use axum::serve::{IncomingStream, Listener};
use tokio::net::TcpListener;

use super::guard::Guard;
use super::tls::TlsListener;

/// The peer address of the connection. Serve with `into_make_service_with_connect_info::<PeerAddress>()`. (A
/// plain `SocketAddr` cannot be used there: axum implements it for its own listeners only.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl<L: Listener<Addr = SocketAddr>> Connected<IncomingStream<'_, TlsListener<L>>> for PeerAddress {
    fn connect_info(stream: IncomingStream<'_, TlsListener<L>>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// The client's address, as far as it can be known. In the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// For layers outside this module.
    pub(crate) fn of_request(guard: &Guard, request: &Request) -> Self {
        Self::of(request.headers(), request.extensions(), guard.behind_proxy)
    }

    pub(super) fn of(headers: &HeaderMap, extensions: &Extensions, behind_proxy: bool) -> Self {
        if let Some(forwarded) = behind_proxy.then(|| last_forwarded(headers)).flatten() {
            return Self(forwarded.to_canonical());
        }
        let peer = extensions.get::<ConnectInfo<PeerAddress>>().map(|ConnectInfo(peer)| peer.0);
        let plain = || extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| *address);
        // Without connect info, all clients count as one.
        let address = peer.or_else(plain).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        Self(address.to_canonical())
    }
}

/// The address that our own proxy wrote. Only for connections of that proxy.
pub(crate) fn last_forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let entry = last.rsplit(',').next()?.trim();
    // Some proxies write the port too.
    entry.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
}
