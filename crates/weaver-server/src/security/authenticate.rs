//! The layer that finds out who is asking.

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

/// The layer that puts an [`Identity`] and a [`ClientAddress`] into the request's extensions, or turns the
/// request away. Tokens are taken from `Authorization: Bearer` alone: addresses end up in logs and histories.
/// The session of a page of ours is enough to read, never to change anything: cookies are sent by other
/// sites' pages too. See [`protect`](super::protect).
pub async fn authenticate(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let address = ClientAddress::of(request.headers(), request.extensions(), guard.behind_proxy);
    if let Err(refusal) = check_fetch_site(request.headers()) {
        return refusal.into_response();
    }
    let (session, presented) = (session_of(&guard, &request), bearer(request.headers()));
    let local = request.extensions().get::<LocalPeer>().map(LocalPeer::identity);
    let (identified, recheck) = match (in_session(&guard, session.clone()).await, local) {
        (Some(identified), _) => (identified, session.map(|secret| Recheck::of_session(&guard, secret))),
        // On the server's socket the kernel says who asks. A token there is asked for less, and gets that.
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
            // Nothing behind this layer needs the secret, so nothing behind it can log it or pass it on.
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
                    "requests are refused; the log has the 1st, 2nd, 4th, 8th, … of an address per minute"
                );
            }
            let mut response = refusal.into_response();
            if response.status() == StatusCode::TOO_MANY_REQUESTS {
                // The next try costs a connection.
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }
}

/// The connection counts for its token from now on; a server that asks for no tokens has one caller.
pub(crate) fn count_connection(request: &Request, identity: &Identity) -> Result<(), Refusal> {
    let Some(slot) = request.extensions().get::<Slot>() else { return Ok(()) };
    let counted = slot.count_for(identity.token.as_ref().map_or(&identity.name, |token| token.as_str()));
    let (status, code, detail) = match counted {
        Ok(()) => return Ok(()),
        Err(Full::Token(max)) => (
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            format!("this token has {max} connections, as many as one may"),
        ),
        Err(Full::Server) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "server_full",
            "the server has as many connections as it may".to_owned(),
        ),
    };
    let next = "close connections, or wait for some to end; `serve.connections_per_token` and `serve.connections` set \
                the limits";
    Err(Refusal::new(status, code, detail, next).with(header::RETRY_AFTER, HeaderValue::from(1)))
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
    // First of all: a valid token is let in whatever else came from its address.
    let verified = match presented {
        Ok(text) => verify(tokens, &text).await,
        Err(NotAToken) => Err(invalid()),
    };
    match verified {
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => {
            // Of ids that were valid here: those that are drawn at random would only fill the memory.
            let id = id.filter(|id| tokens.has_seen(id));
            Err(held_back(guard, address, id, refusal).await)
        }
        verified => verified,
    }
}

/// Counts a failure, and holds its answer back if there were too many.
async fn held_back(guard: &Guard, address: ClientAddress, id: Option<TokenId>, refusal: Refusal) -> Refusal {
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
            "ask an admin for a new token",
            r#"Bearer realm="weaver", error="invalid_token", error_description="expired""#,
        ),
        Unverified::Store(error) => store_failed(&error),
    }
}

/// The token in the request, if it has one. Two of them are as good as none.
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
        "the request carries no token",
        "send `Authorization: Bearer wvr_…`; on the server's machine `weaver token` makes one",
        r#"Bearer realm="weaver""#,
    )
}

/// The same for a token that never was, one that was revoked, and one whose secret is wrong.
fn invalid() -> Refusal {
    unauthorized(
        "token_invalid",
        "the token is not known here",
        "check that it is whole and for this server; it may have been revoked: ask an admin for a new one",
        r#"Bearer realm="weaver", error="invalid_token""#,
    )
}

fn unauthorized(
    code: &'static str,
    detail: impl Into<std::borrow::Cow<'static, str>>,
    next: &'static str,
    challenge: &'static str,
) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, code, detail, next)
        .with(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
}

fn too_many(wait_secs: u64) -> Refusal {
    Refusal::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_failed_tokens",
        "the token is not valid, and too many wrong ones came from this address or with this id: answers are delayed",
        format!("correct the token, and try again in {wait_secs} s"),
    )
    .with(header::RETRY_AFTER, HeaderValue::from(wait_secs))
}

pub(crate) fn store_failed(error: &Error) -> Refusal {
    // The store's words stay in the log: whoever asks has not shown yet who they are.
    tracing::warn!(%error, "a token could not be verified");
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_unavailable",
        "the token could not be looked up",
        "try again in a moment; the server's log has the reason",
    )
    .with(header::RETRY_AFTER, HeaderValue::from(1))
}
