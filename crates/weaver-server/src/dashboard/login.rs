//! In by a token or by a link that is good once; out by a button.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, extract::Request};
use maud::{Markup, html};

use super::form::{Fields, Query};
use super::gate::{Session, redirect};
use super::layout::{self, Html};
use super::{Pages, text};
use crate::problem::Problem;
use crate::security::{ClientAddress, NotAToken, Secret, TokenText, identify};

/// The field of a link that holds its secret.
pub(crate) const LINK_FIELD: &str = "link";

pub(super) async fn show(State(pages): State<Pages>, Query(query): Query, headers: HeaderMap) -> Response {
    let next = inside(query.get("next"));
    // Browsers that look ahead must not use a link up.
    let is_ahead =
        headers.contains_key("sec-purpose") || headers.get("purpose").is_some_and(|why| why == "prefetch");
    let Some(link) = query.get(LINK_FIELD).filter(|_| !is_ahead) else {
        return Html(form(next, None)).into_response();
    };
    let Some(sessions) = pages.guard.sessions() else { return redirect("/") };
    let redeemed = match Secret::parse(link) {
        Some(secret) => sessions.redeem(&secret).await,
        None => Ok(None),
    };
    match redeemed {
        // Not a redirect: a browser that came by another site's link would leave the cookie behind.
        Ok(Some(secret)) => {
            with_cookie(&pages, &secret, layout::reopen(&axum::http::Uri::from_static("/")).into_response())
        }
        Ok(None) => {
            let why = "This link was used before, or it is too old. `weaver dashboard` makes a new one.";
            layout::with_status(StatusCode::GONE, form(next, Some(why)))
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

pub(super) async fn log_in(State(pages): State<Pages>, request: Request) -> Response {
    let address = ClientAddress::of_request(&pages.guard, &request);
    let fields = match <Fields as axum::extract::FromRequest<Pages>>::from_request(request, &pages).await {
        Ok(fields) => fields,
        Err(problem) => return problem.into_response(),
    };
    let next = inside(fields.get("next")).to_owned();
    let Some(sessions) = pages.guard.sessions() else { return redirect(&next) };
    let presented = TokenText::parse(fields.get("token").unwrap_or_default().trim()).map_err(|_| NotAToken);
    match identify(&pages.guard, address, Some(presented)).await {
        Ok(identity) => {
            let Some(token) = &identity.token else { return redirect(&next) };
            match sessions.begin(token).await {
                Ok(secret) => with_cookie(&pages, &secret, redirect(&next)),
                Err(error) => Problem::from(error).into_response(),
            }
        }
        Err(refusal) => {
            let why = format!("Not logged in: {}. What to do: {}.", refusal.detail, refusal.next);
            layout::with_status(refusal.status, form(&next, Some(&why)))
        }
    }
}

pub(super) async fn log_out(State(pages): State<Pages>, Extension(session): Extension<Session>) -> Response {
    if let (Some(sessions), Some(secret)) = (pages.guard.sessions(), &session.secret)
        && let Err(error) = sessions.end(secret).await
    {
        return Problem::from(error).into_response();
    }
    let mut response = redirect("/login");
    set_cookie(&mut response, &pages.guard.set_cookie(None));
    response
}

fn with_cookie(pages: &Pages, secret: &Secret, mut response: Response) -> Response {
    set_cookie(&mut response, &pages.guard.set_cookie(Some(secret)));
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    let value = HeaderValue::try_from(cookie).expect("digits, letters and signs of ours");
    response.headers_mut().insert(header::SET_COOKIE, value);
}

/// Only our own pages are gone on to: `//elsewhere` and `/\elsewhere` are other sites.
fn inside(next: Option<&str>) -> &str {
    let is_ours = |path: &&str| {
        path.starts_with('/')
            && !path[1..].starts_with(['/', '\\'])
            && !path.contains(|c: char| c.is_control())
    };
    next.filter(is_ours).unwrap_or("/")
}

fn form(next: &str, why: Option<&str>) -> Markup {
    layout::bare(
        "Log in",
        &html! {
            h1 { "Log in" }
            @if let Some(why) = why { p.alert role="alert" { (text::plain(why)) } }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="current-password" required autofocus
                    aria-describedby="token-help" placeholder="wvr_…";
                button.primary { "Log in" }
            }
            div #token-help {
                p { "On the server's machine there is no need to type it:" }
                (layout::command("weaver dashboard"))
                p { "prints a link that logs this browser in once. " code { "weaver tokens create" } " makes a token." }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_on_to_our_own_pages_only() {
        assert_eq!(inside(Some("/tasks?state=dead")), "/tasks?state=dead");
        for foreign in
            ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\n/x", ""]
        {
            assert_eq!(inside(Some(foreign)), "/", "{foreign}");
        }
    }
}
