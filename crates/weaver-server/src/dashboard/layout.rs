//! The frame of every page.

use axum::http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use weaver_core::task::TaskState;

use super::assets;
use super::gate::KEY_FIELD;
use super::merge;
use super::text::{plain, plain_attribute};
use super::view::View;
use crate::api::Permission;

/// Nothing from elsewhere, nothing inline: what a task says can never be script or style of ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page: HTML with the headers that all of them have.
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
        // Not `no-referrer`: forms would then hide where they come from, and be refused.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    (status, headers, markup.into_string()).into_response()
}

/// What a page is called, and what keeps it fresh.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    /// The name in the navigation.
    pub(super) section: &'a str,
    /// `any`: every change of the namespace concerns it; an id: only that task's; empty: it does not change
    /// by itself.
    pub(super) live: &'a str,
}

/// A page in its frame.
pub(super) fn page(view: &View, head: &Head<'_>, body: &Markup) -> Html {
    let events = view.link("/live", &[]);
    Html(document(
        &format!("{} · {}", plain_attribute(head.title), view.namespace),
        &html! {
            header.top {
                a.brand href=(view.link("/", &[])) { "Weaver" }
                nav aria-label="Pages" {
                    @for (name, path) in sections(view) {
                        a href=(view.link(path, &[])) aria-current=[(head.section == name).then_some("page")] { (name) }
                    }
                }
                (namespace_selector(view))
                div.who {
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

/// How often a page is asked for again without an event. Events tell of tasks only: a page about anything
/// else asks often enough that a change is on it within a second.
fn tick_ms(section: &str) -> u32 {
    match section {
        "Overview" | "Tasks" | "Groups" => 5000,
        _ => 900,
    }
}

/// A page without a frame: for whoever is not logged in, and for errors.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    document(
        title,
        &html! {
            header.top { a.brand href="/" { "Weaver" } }
            main #main tabindex="-1" { (body) }
        },
    )
}

/// A page that asks for itself once more: from here the browser sends its cookie along.
pub(super) fn reopen(uri: &Uri) -> Html {
    let target = format!("0;url={}", uri.path_and_query().map_or("/", |path| path.as_str()));
    Html(html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta http-equiv="refresh" content=(target); title { "Opening" } }
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
                a.skip href="#main" { "Skip to the content" }
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
        ("Runners", "/runners"),
        ("Schedules", "/schedules"),
    ];
    if merge::is_shown(view) {
        sections.push(("Merge", "/merge"));
    }
    if view.may_everywhere(Permission::Read) {
        sections.push(("Settings", "/settings"));
    }
    if view.may_everywhere(Permission::ManageTokens) {
        sections.push(("Tokens", "/tokens"));
    }
    if view.may(Permission::ReadAudit) {
        sections.push(("Audit", "/audit"));
    }
    sections
}

fn namespace_selector(view: &View) -> Markup {
    // From a task's page to another namespace's list: the same id is another task there.
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
            noscript { button { "Go" } }
        }
    }
}

/// The hidden field that every form needs.
pub(super) fn key(view: &View) -> Markup {
    html! { input type="hidden" name=(KEY_FIELD) value=(view.session.form_key); }
}

/// A form that is one button.
pub(super) fn button(view: &View, action: &str, label: &str, fields: &[(&str, &str)], class: &str) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (key(view))
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            button class=(class) { (label) }
        }
    }
}

/// A state, by its word and its colour.
pub(super) fn state(state: TaskState) -> Markup {
    html! { span class=(format!("state {state}")) { (state_word(state)) } }
}

pub(super) fn state_word(state: TaskState) -> &'static str {
    match state {
        TaskState::RetryScheduled => "retrying",
        other => other.as_str(),
    }
}

/// A command to copy.
pub(super) fn command(text: &str) -> Markup {
    html! {
        span.command {
            code tabindex="0" { (plain(text)) }
            button type="button" data-copy=(plain_attribute(text)) hidden { "Copy" }
        }
    }
}

/// What to show where there is nothing to show.
pub(super) fn empty(what: &str, next: &str, line: &str) -> Markup {
    html! { div.empty { p { (what) } p { (next) } (command(line)) } }
}
