//! A TCP proxy to the server that cuts connections on command: after a number of client packets, or at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Listens on a free port and forwards everything.
pub(crate) struct Proxy {
    state: Arc<State>,
}

struct State {
    server: String,
    /// Client packets that are still forwarded; the next one cuts every connection. Negative: no limit.
    left: AtomicI64,
    /// Whether the server still gets the packet at the cut; its answer is dropped.
    delivers: AtomicBool,
    /// Whether every connection is refused.
    is_down: AtomicBool,
    /// How many connections clients have opened so far.
    connections: AtomicU64,
    cut: watch::Sender<u64>,
}

impl Proxy {
    /// Starts a proxy to the server of this URL; returns the URL of the proxy as well.
    #[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
    pub(crate) async fn to(url: &str) -> (Self, String) {
        let server = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            server: server.to_owned(),
            left: AtomicI64::new(-1),
            delivers: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            cut: watch::Sender::new(0),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, Arc::clone(&shared)));
            }
        });
        let through = url.replace(server, &format!("127.0.0.1:{port}"));
        (Self { state }, through)
    }

    /// Forwards so many client packets, then cuts every connection once: before the server gets the next one,
    /// or after it has executed it.
    pub(crate) fn cut_after(&self, packets: i64, delivers: bool) {
        self.state.delivers.store(delivers, Ordering::SeqCst);
        self.state.left.store(packets, Ordering::SeqCst);
    }

    /// Cuts and refuses all connections, or accepts them again.
    pub(crate) fn down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
        self.state.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Whether the last cut was made.
    pub(crate) fn was_cut(&self) -> bool {
        self.state.left.load(Ordering::SeqCst) < 0
    }

    /// How many connections clients have opened so far.
    pub(crate) fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

async fn pass(mut client: TcpStream, state: Arc<State>) {
    let mut cut = state.cut.subscribe();
    state.connections.fetch_add(1, Ordering::SeqCst);
    if state.is_down.load(Ordering::SeqCst) {
        return;
    }
    let Ok(mut server) = TcpStream::connect(&state.server).await else { return };
    let (mut from_client, mut from_server) = (vec![0; 65536], vec![0; 65536]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                match state.left.fetch_sub(1, Ordering::SeqCst) {
                    0 => {
                        if state.delivers.load(Ordering::SeqCst) {
                            let _ = server.write_all(&from_client[..count]).await;
                            let _ = server.read(&mut from_server).await;
                        }
                        state.cut.send_modify(|cuts| *cuts += 1);
                        return;
                    }
                    1.. => {}
                    _ => state.left.store(-1, Ordering::SeqCst),
                }
                if server.write_all(&from_client[..count]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&from_server[..count]).await.is_err() {
                    return;
                }
            }
            _ = cut.changed() => return,
        }
    }
}
