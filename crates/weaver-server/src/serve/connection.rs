//! One connection, from accept to close.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tower::ServiceExt;

use super::admission::Arrival;
use super::prefix::Prefixed;
use super::slot::{Held, Slot};
use super::stall::Stalling;
use crate::api::AppState;
use crate::problem::Problem;
use crate::security::last_forwarded;

/// Finds a place for a connection, and serves it there.
pub(super) async fn admit<Io>(io: Io, address: SocketAddr, router: Router, state: AppState)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = Stalling::new(io, Arc::clone(&state.clock), state.limits.write_timeout);
    let peer = address.ip().to_canonical();
    if state.is_proxy(peer) {
        let Some(slot) = state.admission.proxied() else {
            tracing::warn!(%address, "proxy connection refused: the server has reached its connection limit");
            return;
        };
        return serve(Prefixed::new(io), Serving { address, router, state, slot, is_proxied: true }, true)
            .await;
    }
    let Some(arrival) = state.admission.arrive() else {
        tracing::debug!(%address, "connection closed: too many anonymous connections");
        return;
    };
    let mut io = Prefixed::new(io);
    let places = state.admission.places(peer);
    let (place, keep_alive) = match Arc::clone(&places).try_acquire_owned() {
        Ok(place) => (place, true),
        Err(_) => {
            let acquire = async { places.acquire_owned().await.expect("places are never closed") };
            match wait(&mut io, acquire, &state).await {
                Some(found) => found,
                None => {
                    tracing::debug!(%address, "connection closed: no place within the anonymous timeout");
                    return;
                }
            }
        }
    };
    let slot = anonymous(&state, Some(arrival), place);
    serve(io, Serving { address, router, state, slot, is_proxied: false }, keep_alive).await;
}

fn anonymous(state: &AppState, arrival: Option<Arrival>, place: OwnedSemaphorePermit) -> Slot {
    Slot::new(Arc::clone(&state.admission), Held::Anonymous { _arrival: arrival, _place: place })
}

/// Waits for a place; only the first bytes are read. Health and login have places of their own, for one
/// request each. `None` on timeout, eviction or shutdown.
async fn wait<Io: AsyncRead + Unpin>(
    io: &mut Prefixed<Io>,
    place: impl Future<Output = OwnedSemaphorePermit>,
    state: &AppState,
) -> Option<(OwnedSemaphorePermit, bool)> {
    let waiting = state.admission.wait();
    let deadline = state.clock.monotonic().saturating_add(state.limits.anonymous_timeout);
    tokio::select! {
        place = place => Some((place, true)),
        () = io.asks_for_health() => state.admission.health().map(|place| (place, false)),
        () = waiting.evicted.cancelled() => None,
        () = state.closing.cancelled() => None,
        () = state.clock.sleep_until(deadline) => None,
    }
}

struct Serving {
    address: SocketAddr,
    router: Router,
    state: AppState,
    slot: Slot,
    is_proxied: bool,
}

async fn serve<Io>(io: Io, serving: Serving, keep_alive: bool)
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Serving { address, router, state, slot, is_proxied } = serving;
    slot.set_idle(Some(state.clock.monotonic()));
    let (served, counted) = (state.clone(), slot.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, state, slot) = (router.clone(), served.clone(), counted.clone());
        async move {
            slot.set_idle(None);
            let response = respond(request, address, router, &state, slot.clone(), is_proxied).await;
            slot.set_idle(Some(state.clock.monotonic()));
            response
        }
    });
    let limits = state.limits;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(keep_alive)
        .header_read_timeout(limits.header_timeout)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.header_max_bytes)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silence(&state, &slot) => return tracing::debug!(%address, "anonymous connection closed: idle too long"),
        () = state.closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "connection failed");
    }
}

/// Returns when an anonymous connection has not sent complete headers for too long. Authenticated ones have
/// [`header_timeout`](crate::api::ApiLimits::header_timeout).
async fn silence(state: &AppState, slot: &Slot) {
    let timeout = state.limits.anonymous_timeout;
    // An authenticated connection stays so: it needs no timer here.
    while slot.is_anonymous() {
        let now = state.clock.monotonic();
        let ends_at = slot.idle_since().map(|since| since.saturating_add(timeout));
        if ends_at.is_some_and(|ends_at| ends_at <= now) {
            return;
        }
        state.clock.sleep_until(ends_at.unwrap_or(now.saturating_add(timeout))).await;
    }
    std::future::pending::<()>().await;
}

async fn respond(
    request: Request<Incoming>,
    address: SocketAddr,
    router: Router,
    state: &AppState,
    slot: Slot,
    is_proxied: bool,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(address));
    if !is_proxied {
        // Trusted from a proxy only, whatever the layers behind do with it.
        request.headers_mut().remove("x-forwarded-for");
        request.extensions_mut().insert(slot);
        return router.oneshot(request).await;
    }
    let caller = forwarded(request.headers()).unwrap_or(address.ip());
    let Ok(place) = state.admission.places(caller).try_acquire_owned() else {
        return Ok(too_many(caller).into_response());
    };
    let slot = anonymous(state, None, place);
    request.extensions_mut().insert(slot.clone());
    // Held until the body is sent: an event stream continues after the response has begun.
    Ok(router.oneshot(request).await?.map(|body| Body::new(Counted { body, _slot: slot })))
}

fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    last_forwarded(headers).map(|address| address.to_canonical())
}

fn too_many(address: IpAddr) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_anonymous_requests",
        format!("{address} has reached its limit of concurrent requests without a token"),
        "wait for some of them to end, or send a token",
    )
}

/// A body that holds its request's place.
struct Counted {
    body: Body,
    _slot: Slot,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
