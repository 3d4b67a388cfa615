//! The layer in front of every page: who is logged in, and whether a form is one that this server gave them.

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

/// The field every form carries.
pub(super) const KEY_FIELD: &str = "form_key";

/// What a page knows about the browser in front of it.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) form_key: String,
    /// None where everybody comes in.
    pub(super) secret: Option<Secret>,
}

pub(super) async fn enter(State(pages): State<Pages>, mut request: Request, next: Next) -> Response {
    let (identity, session) = match known(&pages, pages.guard.cookie_of(request.headers())).await {
        Ok(Some(known)) => known,
        Ok(None) => return turned_away(&request),
        Err(response) => return response,
    };
    if let Err(refusal) = count_connection(&request, &identity) {
        return refusal.into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        request.extensions_mut().insert(identity.clone());
        request = match checked(&pages, request, &session).await {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        };
    }
    let address = ClientAddress::of_request(&pages.guard, &request);
    let asked = format!("{} {}", request.method(), request.uri().path());
    if let Some(secret) = session.secret.clone() {
        request.extensions_mut().insert(Recheck::of_session(&pages.guard, secret));
    }
    request.extensions_mut().insert(identity.clone());
    request.extensions_mut().insert(address);
    request.extensions_mut().insert(session);
    let response = next.run(request).await;
    if response.status() == StatusCode::FORBIDDEN {
        denied(&pages.state, identity, asked).await;
    }
    response
}

async fn known(pages: &Pages, secret: Option<Secret>) -> Result<Option<(Identity, Session)>, Response> {
    let Some(sessions) = pages.guard.sessions() else {
        let session = Session { form_key: pages.local_form_key.to_string(), secret: None };
        return Ok(Some((Identity::local(), session)));
    };
    let Some(secret) = secret else { return Ok(None) };
    let found = sessions.verify(&secret).await.map_err(|error| store_failed(&error).into_response())?;
    Ok(found.map(|identity| (identity, Session { form_key: secret.form_key(), secret: Some(secret) })))
}

/// Somebody without a session is shown the way in; the script, which follows no redirects, is told.
fn turned_away(request: &Request) -> Response {
    let is_page = request.headers().get("sec-fetch-mode").is_none_or(|mode| mode == "navigate");
    if !is_page {
        return Problem::new(StatusCode::UNAUTHORIZED, "logged_out", "nobody is logged in", "log in again")
            .into_response();
    }
    // A browser that followed another site's link keeps its cookie back. It sends it when the page asks for
    // itself.
    let is_foreign =
        request.headers().get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    if *request.method() == Method::GET && is_foreign {
        return layout::reopen(request.uri()).into_response();
    }
    let asked = if *request.method() == Method::GET { request.uri().to_string() } else { "/".to_owned() };
    redirect(&format!("/login?{}", encoded([("next", asked.as_str())])))
}

/// The answer to every form that did something: what to look at now, by `GET`.
pub(super) fn redirect(to: &str) -> Response {
    let place = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    (
        StatusCode::SEE_OTHER,
        [(header::LOCATION, place), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))],
    )
        .into_response()
}

async fn checked(pages: &Pages, request: Request, session: &Session) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = bodies::read(&pages.state, Request::from_parts(parts.clone(), body), FORM_MAX_BYTES).await?;
    let given = Fields::parse(&bytes);
    let given = given.get(KEY_FIELD).unwrap_or_default();
    if !bool::from(given.as_bytes().ct_eq(session.form_key.as_bytes())) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "form_key_wrong",
            "this form was not made for whoever is logged in now",
            "go back, load the page again and repeat what you did",
        ));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// A key for forms on a server where nobody logs in: new with every start.
pub(super) fn random_key() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
