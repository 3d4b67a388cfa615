//! TLS termination.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{InconsistentKeys, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;

use super::private::{PrivateFileError, read_private};

/// The longest a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The most concurrent handshakes; more connections wait in the listen backlog.
pub const HANDSHAKES_MAX: usize = 512;

/// Larger than any key.
const KEY_MAX_BYTES: u64 = 1024 * 1024;
/// The most concurrent handshakes of one address: with one more, its oldest is aborted. A normal handshake
/// takes milliseconds; stalled ones must not block new connections.
pub const HANDSHAKES_PER_ADDRESS: usize = 64;

/// Why the certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{what} {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// `certificate` or `private key`.
        what: &'static str,
        /// The path as configured.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Other users can read or change the key.
    #[error("the private key {0}")]
    Exposed(PrivateFileError),
    /// A file is not in the expected PEM form.
    #[error("{} has no {what} in PEM form ({reason}); expected a line `{line}`", path.display())]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// The path as configured.
        path: PathBuf,
        /// The expected first line of the PEM section.
        line: &'static str,
        /// Without content of the file, which may be part of a key.
        reason: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key {} does not belong to the certificate {}: use the key of that certificate; in a chain, the \
         server's own certificate comes first",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The configured certificate file.
        certificate: PathBuf,
        /// The configured key file.
        key: PathBuf,
    },
    /// Any other error of the TLS library.
    #[error("the certificate {} and its key cannot be used: {source}", certificate.display())]
    Unusable {
        /// The configured certificate file.
        certificate: PathBuf,
        /// The error of rustls.
        source: rustls::Error,
    },
}

/// Reads a certificate (with its chain) and its key, both in PEM form. A key that other users can read is
/// refused. TLS 1.2 and 1.3, HTTP/1.1.
pub fn load_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    const CERTIFICATE: &str = "certificate";
    const BEGIN_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
    let text = read(certificate, CERTIFICATE)?;
    let not_pem = |error| not_pem(certificate, CERTIFICATE, BEGIN_CERTIFICATE, &error);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(not_pem)?;
    if chain.is_empty() {
        return Err(not_pem(pem::Error::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_slice(&read_key(key)?)
        .map_err(|error| self::not_pem(key, "private key", "-----BEGIN PRIVATE KEY-----", &error))?;
    let unusable = |source| match source {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        source => TlsError::Unusable { certificate: certificate.to_owned(), source },
    };
    // Explicit, because a process may have no default provider, or another one.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { what, path: path.to_owned(), source })
}

fn read_key(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { what: "private key", path: path.to_owned(), source };
    match read_private(path, KEY_MAX_BYTES) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(failed(io::ErrorKind::NotFound.into())),
        Err(PrivateFileError::File { source, .. }) => Err(failed(source)),
        Err(exposed) => Err(TlsError::Exposed(exposed)),
    }
}

fn not_pem(path: &Path, what: &'static str, line: &'static str, error: &pem::Error) -> TlsError {
    // Not the library's message: it quotes the line, which may be part of a key.
    let reason = match error {
        pem::Error::NoItemsFound => "no such section",
        pem::Error::MissingSectionEnd { .. } => "truncated",
        _ => "malformed",
    };
    TlsError::Pem { what, path: path.to_owned(), line, reason: reason.to_owned() }
}

type Handshake<Io> = Pin<Box<dyn Future<Output = (Option<TlsStream<Io>>, SocketAddr, u64)> + Send>>;

/// A listener that terminates TLS; for [`axum::serve`](fn@axum::serve).
///
/// Handshakes run concurrently, each with its own timeout: a slow client does not delay others. They are
/// driven by [`accept`](Listener::accept) and end with the listener.
pub struct TlsListener<L: Listener = TcpListener> {
    inner: L,
    acceptor: TlsAcceptor,
    clock: Arc<dyn Clock>,
    handshakes: FuturesUnordered<Handshake<L::Io>>,
    /// Handshakes of each address, oldest first, with the token that aborts one.
    by_address: HashMap<IpAddr, VecDeque<(u64, CancellationToken)>>,
    next_number: u64,
}

impl<L: Listener<Addr = SocketAddr>> TlsListener<L> {
    /// `clock` is for [`HANDSHAKE_TIMEOUT`].
    pub fn new(inner: L, config: Arc<ServerConfig>, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner,
            acceptor: config.into(),
            clock,
            handshakes: FuturesUnordered::new(),
            by_address: HashMap::new(),
            next_number: 0,
        }
    }

    fn begin(&mut self, io: L::Io, address: SocketAddr) -> Handshake<L::Io> {
        let (number, given_up) = (self.next_number, CancellationToken::new());
        self.next_number += 1;
        let ours = self.by_address.entry(address.ip()).or_default();
        if ours.len() >= HANDSHAKES_PER_ADDRESS
            && let Some((_, oldest)) = ours.pop_front()
        {
            oldest.cancel();
        }
        ours.push_back((number, given_up.clone()));
        let handshake = self.acceptor.accept(io);
        let timeout = self.clock.sleep_until(self.clock.monotonic().saturating_add(HANDSHAKE_TIMEOUT));
        Box::pin(async move {
            let stream = tokio::select! {
                done = handshake => match done {
                    Ok(stream) => Some(stream),
                    Err(error) => {
                        tracing::debug!(%address, %error, "TLS handshake failed");
                        None
                    }
                },
                () = timeout => {
                    tracing::debug!(%address, "TLS handshake timed out");
                    None
                }
                () = given_up.cancelled_owned() => {
                    tracing::debug!(%address, "TLS handshake aborted: too many of this address");
                    None
                }
            };
            (stream, address, number)
        })
    }

    fn ended(&mut self, address: SocketAddr, number: u64) {
        let Some(ours) = self.by_address.get_mut(&address.ip()) else { return };
        ours.retain(|(other, _)| *other != number);
        if ours.is_empty() {
            self.by_address.remove(&address.ip());
        }
    }
}

impl<L: Listener<Addr = SocketAddr>> Listener for TlsListener<L> {
    type Io = TlsStream<L::Io>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        // Cancel safe: handshakes stay in the set when this future is dropped, as on shutdown.
        loop {
            tokio::select! {
                Some((stream, address, number)) = self.handshakes.next(), if !self.handshakes.is_empty() => {
                    self.ended(address, number);
                    if let Some(stream) = stream {
                        return (stream, address);
                    }
                }
                (io, address) = self.inner.accept(), if self.handshakes.len() < HANDSHAKES_MAX => {
                    let handshake = self.begin(io, address);
                    self.handshakes.push(handshake);
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

impl<L: Listener> fmt::Debug for TlsListener<L> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TlsListener").field("handshakes", &self.handshakes.len()).finish_non_exhaustive()
    }
}
