//! The layer in front of every page: the session, and the form key that protects forms against CSRF.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::form::{Fields, encoded};
use super::{FORM_MAX_BYTES, Pages, layout};
use crate::api::audit::denied;
use crate::api::bodies;
use crate::problem::Problem;
use crate::security::{ClientAddress, Identity, Recheck, Secret, count_connection, store_failed};

/// The hidden field with the form key.
pub(super) const KEY_FIELD: &str = "form_key";

#[derive(Clone)]
pub(super) struct Session {
    pub(super) form_key: String,
    /// `None` where authentication is off.
    pub(super) secret: Option<Secret>,
}

pub(super) async fn enter(State(pages): State<Pages>, mut request: Request, next: Next) -> Response {
    let (identity, session) = match authenticate(&pages, pages.guard.cookie_of(request.headers())).await {
        Ok(Some(found)) => found,
        Ok(None) => return unauthenticated(&request),
        Err(response) => return response,
    };
    if let Err(refusal) = count_connection(&request, &identity) {
        return refusal.into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        request.extensions_mut().insert(identity.clone());
        request = match check_form_key(&pages, request, &session).await {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        };
    }
    let address = ClientAddress::of_request(&pages.guard, &request);
    let target = format!("{} {}", request.method(), request.uri().path());
    if let Some(secret) = session.secret.clone() {
        request.extensions_mut().insert(Recheck::of_session(&pages.guard, secret));
    }
    request.extensions_mut().insert(identity.clone());
    request.extensions_mut().insert(address);
    request.extensions_mut().insert(session);
    let response = next.run(request).await;
    if response.status() == StatusCode::FORBIDDEN {
        denied(&pages.state, identity, target).await;
    }
    response
}

async fn authenticate(
    pages: &Pages,
    secret: Option<Secret>,
) -> Result<Option<(Identity, Session)>, Response> {
    let Some(sessions) = pages.guard.sessions() else {
        let session = Session { form_key: pages.local_form_key.to_string(), secret: None };
        return Ok(Some((Identity::local(), session)));
    };
    let Some(secret) = secret else { return Ok(None) };
    let found = sessions.verify(&secret).await.map_err(|error| store_failed(&error).into_response())?;
    Ok(found.map(|identity| (identity, Session { form_key: secret.form_key(), secret: Some(secret) })))
}

/// Redirects a page to the login. A fetch by the script gets 401, as it follows no redirects.
fn unauthenticated(request: &Request) -> Response {
    let is_page = request.headers().get("sec-fetch-mode").is_none_or(|mode| mode == "navigate");
    if !is_page {
        return Problem::new(StatusCode::UNAUTHORIZED, "logged_out", "the session has ended", "log in again")
            .into_response();
    }
    // After a link on another site the browser withholds the strict cookie. It sends it with the reload.
    let is_foreign =
        request.headers().get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if *request.method() == Method::GET && is_foreign {
        return layout::reopen(request.uri()).into_response();
    }
    let next = if *request.method() == Method::GET { request.uri().to_string() } else { "/".to_owned() };
    redirect(&format!("/login?{}", encoded([("next", next.as_str())])))
}

/// Post/redirect/get: the answer to every form that succeeded.
pub(super) fn redirect(to: &str) -> Response {
    let place = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    (
        StatusCode::SEE_OTHER,
        [(header::LOCATION, place), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
    )
        .into_response()
}

async fn check_form_key(pages: &Pages, request: Request, session: &Session) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = bodies::read(&pages.state, Request::from_parts(parts.clone(), body), FORM_MAX_BYTES).await?;
    let given = Fields::parse(&bytes);
    let given = given.get(KEY_FIELD).unwrap_or_default();
    if !bool::from(given.as_bytes().ct_eq(session.form_key.as_bytes())) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "form_key_wrong",
            "this form belongs to another session",
            "go back, reload the page and submit the form again",
        ));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// A form key for a server without authentication: new with every start.
pub(super) fn random_key() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
