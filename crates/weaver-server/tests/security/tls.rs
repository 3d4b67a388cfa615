//! TLS termination.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use weaver_core::clock::ManualClock;
use weaver_server::security::{
    Guard, GuardOptions, HANDSHAKE_TIMEOUT, HANDSHAKES_MAX, PeerAddress, TlsError, TlsListener, load_tls,
};

use crate::server::{Scratch, exchange, routes};

struct Files {
    scratch: Scratch,
    made: CertifiedKey<KeyPair>,
}

impl Files {
    fn new() -> Self {
        let made = generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let files = Self { scratch: Scratch::new(), made };
        fs::write(files.certificate(), files.made.cert.pem()).expect("written");
        fs::write(files.key(), files.made.signing_key.serialize_pem()).expect("written");
        files.chmod_key(0o600);
        files
    }

    fn certificate(&self) -> PathBuf {
        self.scratch.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.scratch.path().join("key.pem")
    }

    fn chmod_key(&self, mode: u32) {
        fs::set_permissions(self.key(), fs::Permissions::from_mode(mode)).expect("its mode");
    }

    fn load(&self) -> Result<Arc<rustls::ServerConfig>, TlsError> {
        load_tls(&self.certificate(), &self.key())
    }
}

struct Served {
    address: SocketAddr,
    clock: ManualClock,
    _serving: JoinSet<()>,
}

async fn serve(files: &Files) -> Served {
    let clock = ManualClock::default();
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = tcp.local_addr().expect("it is bound");
    let options = GuardOptions {
        tokens: None,
        clock: Arc::new(clock.clone()),
        listen: address,
        hosts: Vec::new(),
        tls: true,
        behind_proxy: false,
    };
    let routes = routes(Arc::new(Guard::new(options).expect("no hosts")));
    let listener = TlsListener::new(tcp, files.load().expect("files that fit"), Arc::new(clock.clone()));
    assert_eq!(listener.local_addr().expect("it is bound"), address);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let service = routes.into_make_service_with_connect_info::<PeerAddress>();
        axum::serve(listener, service).await.expect("serving never ends");
    });
    Served { address, clock, _serving: serving }
}

fn connector(trusted: Option<&CertificateDer<'static>>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn connect(
    served: &Served,
    connector: TlsConnector,
    name: &'static str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(served.address).await.expect("it listens");
    connector.connect(ServerName::try_from(name).expect("a name"), tcp).await
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_gets_tls_and_its_address_is_known() {
    let files = Files::new();
    let served = serve(&files).await;
    let stream =
        connect(&served, connector(Some(files.made.cert.der())), "localhost").await.expect("a handshake");
    let request = format!(
        "GET /address HTTP/1.1\r\nHost: localhost:{0}\r\nOrigin: https://localhost:{0}\r\nConnection: close\r\n\r\n",
        served.address.port()
    );
    assert_eq!(exchange(stream, &request).await.allowed(), "127.0.0.1");
}

#[tokio::test]
async fn a_page_loaded_over_http_is_cross_site_for_a_server_with_tls() {
    let files = Files::new();
    let served = serve(&files).await;
    let stream =
        connect(&served, connector(Some(files.made.cert.der())), "localhost").await.expect("a handshake");
    let request = format!(
        "GET /address HTTP/1.1\r\nHost: localhost:{0}\r\nOrigin: http://localhost:{0}\r\nConnection: close\r\n\r\n",
        served.address.port()
    );
    exchange(stream, &request).await.refused(403, "cross_site");
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_certificate_or_expects_another_name_stops() {
    let files = Files::new();
    let served = serve(&files).await;
    assert!(connect(&served, connector(None), "localhost").await.is_err());
    let trusting = connector(Some(files.made.cert.der()));
    assert!(connect(&served, trusting, "other.example.org").await.is_err());
}

#[tokio::test]
async fn a_plain_http_request_to_a_tls_port_gets_no_readable_response() {
    let files = Files::new();
    let served = serve(&files).await;
    let stream = TcpStream::connect(served.address).await.expect("it listens");
    let answer = exchange(stream, "GET /address HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!answer.text.contains("HTTP/1.1"), "{}", answer.text);
}

#[tokio::test]
async fn clients_that_never_finish_their_handshake_delay_no_other_and_are_dropped() {
    let files = Files::new();
    let served = serve(&files).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(served.address).await.expect("it listens"));
    }
    let stream =
        connect(&served, connector(Some(files.made.cert.der())), "localhost").await.expect("a handshake");
    exchange(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.allowed();
    served.clock.advance(HANDSHAKE_TIMEOUT);
    for mut client in silent {
        assert_eq!(client.read(&mut [0; 16]).await.unwrap_or(0), 0, "the server has closed it");
    }
}

#[tokio::test]
async fn more_stalled_handshakes_than_the_limit_delay_no_other_client() {
    let files = Files::new();
    let served = serve(&files).await;
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX + 100 {
        silent.push(TcpStream::connect(served.address).await.expect("it listens"));
    }
    let stream =
        connect(&served, connector(Some(files.made.cert.der())), "localhost").await.expect("a handshake");
    exchange(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.allowed();
}

#[test]
fn a_missing_file_is_named() {
    let files = Files::new();
    fs::remove_file(files.key()).expect("it is there");
    let refusal = files.load().expect_err("no key").to_string();
    assert!(refusal.contains("key.pem") && refusal.contains("check the path"), "{refusal}");
    fs::remove_file(files.certificate()).expect("it is there");
    let refusal = files.load().expect_err("no certificate").to_string();
    assert!(refusal.contains("certificate.pem"), "{refusal}");
}

#[test]
fn a_key_of_another_certificate_is_refused_and_both_files_are_named() {
    let (files, others) = (Files::new(), Files::new());
    fs::copy(others.key(), files.key()).expect("copied");
    let refusal = files.load().expect_err("they do not fit");
    assert!(matches!(refusal, TlsError::Mismatch { .. }), "{refusal:?}");
    let said = refusal.to_string();
    assert!(said.contains("key.pem") && said.contains("certificate.pem"), "{said}");
}

#[test]
fn an_invalid_pem_file_is_named_and_never_quoted() {
    let files = Files::new();
    let key = fs::read_to_string(files.key()).expect("a key");
    fs::copy(files.key(), files.certificate()).expect("copied");
    let refusal = files.load().expect_err("a key is no certificate");
    assert!(refusal.to_string().contains("BEGIN CERTIFICATE"), "{refusal}");
    let damaged = key.replace("-----END", "-----EN");
    fs::write(files.certificate(), Files::new().made.cert.pem()).expect("written");
    for wrong in ["", "hello", &damaged, &key.replacen("MI", "!!", 1)] {
        fs::write(files.key(), wrong).expect("written");
        let refusal = files.load().expect_err("no key");
        let said = format!("{refusal} {refusal:?}");
        assert!(said.contains("key.pem") && said.contains("BEGIN PRIVATE KEY"), "{said}");
        assert!(
            key.lines().filter(|line| !line.starts_with("---")).all(|line| !said.contains(line)),
            "{said}"
        );
    }
}

#[test]
fn a_key_that_other_users_can_read_or_change_is_refused_with_a_chmod_hint() {
    let files = Files::new();
    for mode in [0o644, 0o604, 0o602, 0o666] {
        files.chmod_key(mode);
        let refusal = files.load().expect_err("exposed").to_string();
        assert!(refusal.contains("key.pem") && refusal.contains("chmod 600"), "{refusal}");
        assert!(refusal.contains(&format!("{mode:o}")), "{refusal}");
    }
    files.chmod_key(0o400);
    files.load().expect("its owner's alone");
}
