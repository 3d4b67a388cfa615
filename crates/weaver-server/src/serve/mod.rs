//! Serving: connections in, each within its limits, until the shutdown.
//!
//! `axum::serve` has no limits on headers, silence or the number of connections; this is the same loop with them.

mod local;
mod stall;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::api::{AppState, observe};
pub use local::{LOCAL_CONNECTIONS_MAX, serve_local};
use stall::Stalling;

/// Serves until `shutdown` is cancelled: then nothing new is accepted, waits and streams end, and requests under way have
/// [`shutdown_grace`](crate::api::ApiLimits::shutdown_grace) to finish.
pub async fn serve<L>(mut listener: L, router: Router, state: AppState, shutdown: CancellationToken)
where
    L: Listener<Addr = SocketAddr>,
{
    let places = Arc::new(Semaphore::new(state.limits.connections_max));
    let mut connections = JoinSet::new();
    let watched = state.clone();
    connections.spawn(async move { observe(&watched).await });
    let audited = state.clone();
    connections.spawn(async move { audited.audit.keep(&audited.closing).await });
    loop {
        // A place first: connections beyond the limit wait in the backlog, and cost nothing.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            (place, (io, address)) = accepted => {
                let io = Stalling::new(io, Arc::clone(&state.clock), state.limits.write_timeout);
                let connection = connection(io, address, router.clone(), state.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            // Those that are done are let go of as they end.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    state.closing.cancel();
    let deadline = state.clock.monotonic().saturating_add(state.limits.shutdown_grace);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = state.clock.sleep_until(deadline) => tracing::warn!("requests were cut off by the shutdown"),
    }
    state.audit.flush().await;
}

async fn connection<Io>(io: Stalling<Io>, address: SocketAddr, router: Router, state: AppState)
where
    Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().oneshot(request)
    });
    let limits = state.limits;
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
        tracing::debug!(%address, %error, "a connection ended early");
    }
}
