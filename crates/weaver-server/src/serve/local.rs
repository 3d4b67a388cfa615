//! The server's Unix socket: the same API, for local admins, who are authenticated by user id.

use std::sync::Arc;

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use weaver_process::secrecy;

use super::stall::Stalling;
use crate::api::AppState;
use crate::security::{LocalAdmins, LocalPeer, Refusal};

/// The most connections to the socket at once; more wait to be accepted. They are counted separately from
/// TCP: a local admin can connect however many clients there are.
pub const LOCAL_CONNECTIONS_MAX: usize = 256;

/// Serves the socket until `shutdown` is cancelled. Run it beside [`serve`](super::serve), which does the
/// server's background work.
pub async fn serve_local(
    listener: UnixListener,
    admins: LocalAdmins,
    router: Router,
    state: AppState,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(LOCAL_CONNECTIONS_MAX));
    let refusing = Router::new().fallback(|| async { refused().into_response() });
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            (place, accepted) = accepted => {
                let Ok((stream, _)) = accepted else {
                    pause(&state).await;
                    continue;
                };
                let peer = admitted(&stream, &admins);
                let router = if peer.is_some() { router.clone() } else { refusing.clone() };
                let connection = connection(stream, peer, router, state.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    let deadline = state.clock.monotonic().saturating_add(state.limits.shutdown_grace);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = state.clock.sleep_until(deadline) => tracing::warn!("shutdown grace period over: requests on the socket were aborted"),
    }
}

/// Accepting fails when the process has no file descriptors left: an immediate retry would only spin.
async fn pause(state: &AppState) {
    let until = state.clock.monotonic().saturating_add(std::time::Duration::from_millis(100));
    state.clock.sleep_until(until).await;
}

fn admitted(stream: &UnixStream, admins: &LocalAdmins) -> Option<LocalPeer> {
    let credentials = stream.peer_cred().ok()?;
    if is_confined(credentials.pid()) {
        tracing::warn!(pid = credentials.pid(), "confined command refused on the socket");
        return None;
    }
    let peer = admins.admit(credentials.uid(), credentials.gid());
    if peer.is_none() {
        tracing::warn!(uid = credentials.uid(), gid = credentials.gid(), "user refused on the socket");
    }
    peer
}

/// A command under Landlock-only confinement has the server's user and can reach the socket: Landlock does
/// not restrict Unix sockets. It is recognized by `no_new_privs`, which it cannot undo; a server that is
/// restricted itself does not run such commands.
fn is_confined(pid: Option<i32>) -> bool {
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    !secrecy::is_restricted(std::process::id()) && pid.is_none_or(secrecy::is_restricted)
}

fn refused() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "not_a_local_admin",
        "this socket is for the server's user, root and the members of `serve.admin_group`",
        "use --server with the server's URL, and a token in WEAVER_TOKEN",
    )
}

async fn connection(stream: UnixStream, peer: Option<LocalPeer>, router: Router, state: AppState) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        router.clone().oneshot(request)
    });
    let limits = state.limits;
    let io = Stalling::new(stream, Arc::clone(&state.clock), limits.write_timeout);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_max_bytes)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = state.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection to the socket failed");
    }
}
