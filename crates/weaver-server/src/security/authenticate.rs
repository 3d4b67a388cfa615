//! Authentication: bearer tokens, sessions and local admins.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weaver_core::error::Error;

use super::browser::check_fetch_site;
use super::client_address::ClientAddress;
use super::failures::FAILURE_DELAY;
use super::guard::Guard;
use super::identity::Identity;
use super::local_admin::LocalPeer;
use super::recheck::Recheck;
use super::refusal::Refusal;
use super::sessions::Secret;
use super::token_text::{NotAToken, TokenId, TokenText};
use super::tokens::{Tokens, Unverified};
use crate::serve::{Full, Slot};

/// The layer that puts an [`Identity`] and a [`ClientAddress`] into the request's extensions, or refuses the
/// request.
///
/// Bearer tokens are read from `Authorization` only: URLs end up in logs and browser histories. A session
/// cookie is enough to read, never to change anything: browsers send cookies with other sites' requests too
/// (CSRF). See [`protect`](super::protect).
pub async fn authenticate(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let address = ClientAddress::of(request.headers(), request.extensions(), guard.behind_proxy);
    if let Err(refusal) = check_fetch_site(request.headers()) {
        return refusal.into_response();
    }
    let (session, presented) = (session_of(&guard, &request), bearer(request.headers()));
    let local = request.extensions().get::<LocalPeer>().map(LocalPeer::identity);
    let (identified, recheck) = match (in_session(&guard, session.clone()).await, local) {
        (Some(identified), _) => (identified, session.map(|secret| Recheck::of_session(&guard, secret))),
        // On the Unix socket the kernel authenticates the caller. A token there narrows the permissions.
        (None, Some(local)) if presented.is_none() => (Ok(local), None),
        (None, _) => {
            let identified = identify(&guard, address, presented).await;
            let recheck = identified.as_ref().ok().and_then(|identity| Recheck::of_token(&guard, identity));
            (identified, recheck)
        }
    };
    let identified = identified.and_then(|identity| count_connection(&request, &identity).map(|()| identity));
    match identified {
        Ok(identity) => {
            if let Some(recheck) = recheck {
                request.extensions_mut().insert(recheck);
            }
            // Removed, so that nothing behind this layer can log the secret or pass it on.
            request.headers_mut().remove(header::AUTHORIZATION);
            request.headers_mut().remove(header::COOKIE);
            request.extensions_mut().insert(identity);
            request.extensions_mut().insert(address);
            next.run(request).await
        }
        Err(refusal) => {
            if let Some(count) = guard.failures.sample(address, guard.clock.monotonic()) {
                tracing::info!(
                    address = %address.0, code = refusal.code, count,
                    "request refused (sampled: the 1st, 2nd, 4th, 8th, … per address and minute)"
                );
            }
            let mut response = refusal.into_response();
            if response.status() == StatusCode::TOO_MANY_REQUESTS {
                // Each further guess costs a new connection.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }
}

/// Counts the connection for its token from now on; without tokens there is one caller.
pub(crate) fn count_connection(request: &Request, identity: &Identity) -> Result<(), Refusal> {
    let Some(slot) = request.extensions().get::<Slot>() else { return Ok(()) };
    let counted = slot.count_for(identity.token.as_ref().map_or(&identity.name, |token| token.as_str()));
    let (status, code, detail) = match counted {
        Ok(()) => return Ok(()),
        Err(Full::Token(max)) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            format!("this token has reached its limit of {max} connections"),
        ),
        Err(Full::Server) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "server_full",
            "the server has reached its limit of connections".to_owned(),
        ),
    };
    let hint = "close connections, or retry later; `serve.connections_per_token` and `serve.connections` set the \
                limits";
    Err(Refusal::new(status, code, detail, hint).with(header::RETRY_AFTER, HeaderValue::from(1)))
}

/// The session of a request that only reads and carries no token.
fn session_of(guard: &Guard, request: &Request) -> Option<Secret> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read && !request.headers().contains_key(header::AUTHORIZATION) {
        return guard.cookie_of(request.headers());
    }
    None
}

async fn in_session(guard: &Guard, secret: Option<Secret>) -> Option<Result<Identity, Refusal>> {
    let (sessions, secret) = (guard.sessions()?, secret?);
    sessions.verify(&secret).await.map_err(|error| store_failed(&error)).transpose()
}

pub(crate) async fn identify(
    guard: &Guard,
    address: ClientAddress,
    presented: Option<Result<TokenText, NotAToken>>,
) -> Result<Identity, Refusal> {
    let Some(tokens) = &guard.tokens else {
        return Ok(Identity::local());
    };
    let presented = presented.ok_or_else(missing)?;
    let id = presented.as_ref().ok().map(TokenText::id);
    // First: a valid token is accepted however many failures came from its address.
    let verified = match presented {
        Ok(text) => verify(tokens, &text).await,
        Err(NotAToken) => Err(invalid()),
    };
    match verified {
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
            // Only ids that were valid here are counted: random ones would only fill memory.
            let id = id.filter(|id| tokens.has_seen(id));
            Err(rate_limited(guard, address, id, refusal).await)
        }
        verified => verified,
    }
}

/// The rate limit on failed tokens: counts a failure, and delays its response if there were too many.
async fn rate_limited(
    guard: &Guard,
    address: ClientAddress,
    id: Option<TokenId>,
    refusal: Refusal,
) -> Refusal {
    let now = guard.clock.monotonic();
    let Some(wait) = guard.failures.count(address, id, now) else { return refusal };
    if let Ok(_place) = guard.failures.delayed.try_acquire() {
        guard.clock.sleep_until(now.saturating_add(FAILURE_DELAY)).await;
    }
    too_many(wait.as_secs().saturating_add(1))
}

async fn verify(tokens: &Tokens, text: &TokenText) -> Result<Identity, Refusal> {
    tokens.verify(text).await.map_err(refusal_of)
}

pub(super) fn refusal_of(unverified: Unverified) -> Refusal {
    match unverified {
        Unverified::Unknown => invalid(),
        Unverified::Expired { at } => unauthorized(
            "token_expired",
            format!("the token expired at {at}"),
            "get a new token from an admin",
            r#"Bearer realm="weaver", error="invalid_token", error_description="expired""#,
        ),
        Unverified::Store(error) => store_failed(&error),
    }
}

/// The bearer token of the request, if any. Two `Authorization` headers are an invalid one.
fn bearer(headers: &HeaderMap) -> Option<Result<TokenText, NotAToken>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let only = values.next()?;
    if values.next().is_some() {
        return Some(Err(NotAToken));
    }
    let parts = only.to_str().ok().and_then(|text| text.trim().split_once(' '));
    let token = parts.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Some(token.ok_or(NotAToken).and_then(|(_, text)| TokenText::parse(text.trim_start())))
}

fn missing() -> Refusal {
    unauthorized(
        "token_missing",
        "the request has no bearer token",
        "send `Authorization: Bearer wvr_…`; on the server's machine `weaver token` creates one",
        r#"Bearer realm="weaver""#,
    )
}

/// The same response for an unknown token, a revoked one, and one whose secret is wrong.
fn invalid() -> Refusal {
    unauthorized(
        "token_invalid",
        "the token is invalid",
        "check that it is complete and for this server; if it was revoked, get a new one from an admin",
        r#"Bearer realm="weaver", error="invalid_token""#,
    )
}

fn unauthorized(
    code: &'static str,
    detail: impl Into<std::borrow::Cow<'static, str>>,
    hint: &'static str,
    challenge: &'static str,
) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, code, detail, hint)
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
}

fn too_many(wait_secs: u64) -> Refusal {
    Refusal::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_failed_tokens",
        "the token is invalid, and rate limited: too many failures from this address or with this token id",
        format!("correct the token, and retry in {wait_secs} s"),
    )
    .with(header::RETRY_AFTER, HeaderValue::from(wait_secs))
}

pub(crate) fn store_failed(error: &Error) -> Refusal {
    // The store's error stays in the log: the caller is not authenticated yet.
    tracing::warn!(%error, "token verification failed: the store is unavailable");
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_unavailable",
        "the token could not be verified: the store is unavailable",
        "retry later; the server's log has the error",
    )
    .with(header::RETRY_AFTER, HeaderValue::from(1))
}
