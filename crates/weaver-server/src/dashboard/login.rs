//! Login by token or one-time link, and logout.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, extract::Request};
use maud::{Markup, html};

use super::form::{Fields, Query};
use super::gate::{Session, redirect};
use super::layout::{self, Html};
use super::{Pages, text};
use crate::api::Caller;
use crate::api::audit::AuditRecord;
use crate::problem::Problem;
use crate::security::{ClientAddress, Identity, NotAToken, Secret, TokenText, identify};

/// The query parameter of a login link that holds its secret.
pub(crate) const LINK_FIELD: &str = "link";

/// `GET` does not redeem a link, because browsers prefetch and messengers fetch previews. The button does.
pub(super) async fn show(Query(query): Query) -> Response {
    let next = local_path(query.get("next"));
    match query.get(LINK_FIELD) {
        Some(link) => Html(link_form(link)).into_response(),
        None => Html(form(next, None)).into_response(),
    }
}

pub(super) async fn log_in(State(pages): State<Pages>, request: Request) -> Response {
    let address = ClientAddress::of_request(&pages.guard, &request);
    let fields = match <Fields as axum::extract::FromRequest<Pages>>::from_request(request, &pages).await {
        Ok(fields) => fields,
        Err(problem) => return problem.into_response(),
    };
    if let Some(link) = fields.get(LINK_FIELD) {
        return redeem(&pages, address, link).await;
    }
    let next = local_path(fields.get("next")).to_owned();
    let Some(sessions) = pages.guard.sessions() else { return redirect(&next) };
    let presented = TokenText::parse(fields.get("token").unwrap_or_default().trim()).map_err(|_| NotAToken);
    match identify(&pages.guard, address, Some(presented)).await {
        Ok(identity) => {
            let Some(token) = identity.token.clone() else { return redirect(&next) };
            match sessions.begin(&token).await {
                Ok(secret) => {
                    audit(&pages, identity, "login", &format!("by token, from {}", address.0)).await;
                    with_cookie(&pages, &secret, redirect(&next))
                }
                Err(error) => Problem::from(error).into_response(),
            }
        }
        Err(refusal) => {
            let error = format!("Login failed: {}. Hint: {}.", refusal.detail, refusal.hint);
            layout::with_status(refusal.status, form(&next, Some(&error)))
        }
    }
}

async fn redeem(pages: &Pages, address: ClientAddress, link: &str) -> Response {
    let Some(sessions) = pages.guard.sessions() else { return redirect("/") };
    let redeemed = match Secret::parse(link) {
        Some(secret) => sessions.redeem(&secret).await,
        None => Ok(None),
    };
    match redeemed {
        Ok(Some(secret)) => {
            // For the audit log only: a token revoked meanwhile is rejected by the next page.
            if let Ok(Some(identity)) = sessions.verify(&secret).await {
                audit(pages, identity, "login", &format!("by link, from {}", address.0)).await;
            }
            with_cookie(pages, &secret, redirect("/"))
        }
        Ok(None) => {
            let error =
                "This login link was already used or has expired. Create a new one with `weaver dashboard`.";
            layout::with_status(StatusCode::GONE, form("/", Some(error)))
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

async fn audit(pages: &Pages, identity: Identity, action: &'static str, detail: &str) {
    let target = identity.token.as_ref().map_or_else(String::new, |token| format!("token/{token}"));
    let record = AuditRecord::new(action, target).detail(detail);
    pages.state.audit.write_of_server(&Caller::of(identity, None), record).await;
}

pub(super) async fn log_out(
    State(pages): State<Pages>,
    Extension(session): Extension<Session>,
    Extension(identity): Extension<Identity>,
) -> Response {
    if let (Some(sessions), Some(secret)) = (pages.guard.sessions(), &session.secret)
        && let Err(error) = sessions.end(secret).await
    {
        return Problem::from(error).into_response();
    }
    audit(&pages, identity, "logout", "session ended").await;
    let mut response = redirect("/login");
    set_cookie(&mut response, &pages.guard.set_cookie(None));
    response
}

fn with_cookie(pages: &Pages, secret: &Secret, mut response: Response) -> Response {
    set_cookie(&mut response, &pages.guard.set_cookie(Some(secret)));
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    let value = HeaderValue::try_from(cookie).expect("our cookies are ASCII");
    response.headers_mut().insert(header::SET_COOKIE, value);
}

/// Prevents open redirects: `//elsewhere` and `/\elsewhere` are other sites.
fn local_path(next: Option<&str>) -> &str {
    let is_ours = |path: &&str| {
        path.starts_with('/')
            && !path[1..].starts_with(['/', '\\'])
            && !path.contains(|c: char| c.is_control())
    };
    next.filter(is_ours).unwrap_or("/")
}

fn link_form(link: &str) -> Markup {
    layout::bare(
        "Log in",
        &html! {
            h1 { "Log in" }
            form.stack method="post" action="/login" {
                input type="hidden" name=(LINK_FIELD) value=(link);
                p { "This link logs in one browser, once." }
                button.primary autofocus { "Log in" }
            }
        },
    )
}

fn form(next: &str, error: Option<&str>) -> Markup {
    layout::bare(
        "Log in",
        &html! {
            h1 { "Log in" }
            @if let Some(error) = error { p.alert role="alert" { (text::plain(error)) } }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="current-password" required autofocus
                    aria-describedby="token-help" placeholder="wvr_…";
                button.primary { "Log in" }
            }
            div #token-help {
                p { "On the server's machine, no token is needed:" }
                (layout::command("weaver dashboard"))
                p { "prints a one-time login link. " code { "weaver tokens create" } " creates a token." }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_redirects_to_local_pages_only() {
        assert_eq!(local_path(Some("/tasks?state=dead")), "/tasks?state=dead");
        for foreign in
            ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\n/x", ""]
        {
            assert_eq!(local_path(Some(foreign)), "/", "{foreign}");
        }
    }
}
