//! Accepting and serving connections, until a graceful shutdown.
//!
//! `axum::serve` has no limits on headers, idle time or the number of connections; this is the same loop with
//! them.

mod admission;
mod connection;
mod files;
mod local;
mod prefix;
mod slot;
mod stall;

use std::net::SocketAddr;

use axum::Router;
use axum::serve::Listener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use admission::{Admission, ConnectionLimits, Full};
pub use files::raise_file_limit;
pub(crate) use slot::Slot;

use crate::api::{AppState, observe};
pub use local::{LOCAL_CONNECTIONS_MAX, serve_local};

/// Serves until `shutdown` is cancelled. Then no connection is accepted, long polls and streams end, and
/// requests in progress have [`shutdown_grace`](crate::api::ApiLimits::shutdown_grace) to finish.
pub async fn serve<L>(mut listener: L, router: Router, state: AppState, shutdown: CancellationToken)
where
    L: Listener<Addr = SocketAddr>,
{
    let mut connections = JoinSet::new();
    let watched = state.clone();
    connections.spawn(async move { observe(&watched).await });
    let audited = state.clone();
    connections.spawn(async move { audited.audit.run_flusher(&audited.closing).await });
    loop {
        tokio::select! {
            (io, address) = listener.accept() => {
                let (router, state) = (router.clone(), state.clone());
                connections.spawn(connection::admit(io, address, router, state));
            }
            // Reaps connections that have ended.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shutdown.cancelled() => break,
        }
    }
    drop(listener);
    state.closing.cancel();
    let deadline = state.clock.monotonic().saturating_add(state.limits.shutdown_grace);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = state.clock.sleep_until(deadline) => tracing::warn!("shutdown grace period over: requests were aborted"),
    }
    state.audit.flush().await;
}
