//! The document around every page: navigation, headers, and the elements pages share.

use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use weaver_core::task::TaskState;

use super::assets;
use super::gate::KEY_FIELD;
use super::text::{plain, plain_attribute};
use super::view::View;
use crate::api::Permission;

/// No third-party and no inline sources, so text from a task cannot run as script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// An HTML response with status 200 and the headers every page has.
pub(super) struct Html(pub(super) Markup);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        with_status(StatusCode::OK, self.0)
    }
}

pub(super) fn with_status(status: StatusCode, markup: Markup) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        // Not `no-referrer`: forms would then send no Origin, and be refused.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, headers, markup.into_string()).into_response()
}

pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    /// The entry of the navigation that is marked as current.
    pub(super) section: &'a str,
    /// Which changes refresh it: `any`, all of the namespace; a task id, only that task's; empty, none.
    pub(super) live: &'a str,
}

pub(super) fn page(view: &View, head: &Head<'_>, body: &Markup) -> Html {
    let events = view.link("/live", &[]);
    Html(document(
        &format!("{} · {}", plain_attribute(head.title), view.namespace),
        &html! {
            header.top {
                a.brand href=(view.link("/", &[])) { "Weaver" }
                nav aria-label="Main" {
                    @for (name, path) in sections(view) {
                        a href=(view.link(path, &[])) aria-current=[(head.section == name).then_some("page")] { (name) }
                    }
                }
                (namespace_selector(view))
                div.account {
                    span #live-mark .live role="status" hidden { "Live" }
                    span.name title=(format!("role {}", view.identity.role)) { (plain(&view.identity.name)) }
                    @if view.session.secret.is_some() {
                        form method="post" action="/logout" { (key(view)) button.link { "Log out" } }
                    }
                }
            }
            main #main tabindex="-1" data-live=(head.live) data-events=[(!head.live.is_empty()).then_some(&events)]
                data-tick-ms=(tick_ms(head.section)) {
                (body)
            }
            div #notice role="status" aria-live="polite" {}
        },
    ))
}

/// How often the script fetches the page without an event. Events are about tasks only; other pages poll, so
/// that a change is shown within a second.
fn tick_ms(section: &str) -> u32 {
    match section {
        "Overview" | "Tasks" | "Groups" => 5000,
        _ => 900,
    }
}

/// A page without navigation: for login and errors.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    document(
        title,
        &html! {
            header.top { a.brand href="/" { "Weaver" } }
            main #main tabindex="-1" { (body) }
        },
    )
}

/// Reloads the same URL: a same-site request, with which the browser sends the strict cookie.
pub(super) fn reopen(uri: &Uri) -> Html {
    let target = format!("0;url={}", uri.path_and_query().map_or("/", |path| path.as_str()));
    Html(html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content=(target); title { "Redirecting" } }
            body { p { a href=(uri.to_string()) { "Continue" } } }
        }
    })
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Weaver" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(assets::style_path());
                script src=(assets::script_path()) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (body)
            }
        }
    }
}

fn sections(view: &View) -> Vec<(&'static str, &'static str)> {
    let mut sections = vec![
        ("Overview", "/"),
        ("Tasks", "/tasks"),
        ("Groups", "/groups"),
        ("Queues", "/queues"),
        ("Workers", "/workers"),
        ("Schedules", "/schedules"),
        ("Merge queues", "/merge"),
    ];
    if view.may_everywhere(Permission::Read) {
        sections.push(("Settings", "/settings"));
    }
    if view.may_everywhere(Permission::ManageTokens) {
        sections.push(("Tokens", "/tokens"));
    }
    if view.may(Permission::ReadAudit) {
        sections.push(("Audit log", "/audit"));
    }
    sections
}

fn namespace_selector(view: &View) -> Markup {
    // Ids and names mean another object in another namespace, so detail pages lead to its list.
    let target = if view.path.starts_with("/tasks") {
        "/tasks"
    } else if view.path == "/group" {
        "/groups"
    } else if view.path.starts_with("/schedule") {
        "/schedules"
    } else if view.path.starts_with("/merge") {
        "/merge"
    } else {
        &view.path
    };
    html! {
        form.namespace method="get" action=(target) {
            label for="namespace" { "Namespace" }
            select #namespace name="namespace" data-submit {
                @for namespace in &view.namespaces {
                    option value=(namespace) selected[*namespace == view.namespace] { (plain_attribute(namespace.as_str())) }
                }
            }
            noscript { button { "Switch" } }
        }
    }
}

/// The hidden field with the session's form key, which every form needs (CSRF protection).
pub(super) fn key(view: &View) -> Markup {
    html! { input type="hidden" name=(KEY_FIELD) value=(view.session.form_key); }
}

/// A form with one button and hidden fields.
pub(super) fn button(view: &View, action: &str, label: &str, fields: &[(&str, &str)], class: &str) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (key(view))
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            button class=(class) { (label) }
        }
    }
}

/// The link to the next page of a list.
pub(super) fn next_page(href: &str) -> Markup {
    html! { nav.row aria-label="Pagination" { a.button rel="next" href=(href) { "Next page" } } }
}

/// A state as people read it, in its colour.
pub(super) fn state(state: TaskState) -> Markup {
    html! { span class=(format!("state {state}")) { (state_word(state)) } }
}

pub(super) fn state_word(state: TaskState) -> &'static str {
    match state {
        TaskState::RetryScheduled => "retrying",
        other => other.as_str(),
    }
}

pub(super) fn command(text: &str) -> Markup {
    html! {
        span.command {
            code tabindex="0" { (plain(text)) }
            button type="button" data-copy=(plain_attribute(text)) hidden { "Copy" }
        }
    }
}

/// An empty state: what is missing, and the command that adds it.
pub(super) fn empty(what: &str, hint: &str, line: &str) -> Markup {
    html! { div.empty { p { (what) } p { (hint) } (command(line)) } }
}
