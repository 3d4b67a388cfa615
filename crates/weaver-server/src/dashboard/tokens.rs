//! Tokens: who may come in. A new one is shown once.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{CreatedToken, NewToken, PageQuery, Token};

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::text::{plain, plain_attribute, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::tokens as api;
use crate::problem::Problem;
use crate::security::Role;

const TOKENS: u32 = 200;

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    page(&view, None).await
}

async fn page(view: &View, made: Option<&CreatedToken>) -> Result<Html, Problem> {
    let query = Params(PageQuery { cursor: view.query.text("cursor"), limit: Some(TOKENS) });
    let found = api::list_tokens(State(view.state.clone()), view.caller.clone(), query).await?.0;
    let body = html! {
        h1 { "Tokens" }
        @if let Some(made) = made {
            div.done role="status" {
                p { "The token for " b { (plain(&made.info.name)) } ". It is shown this once: keep it now." }
                (layout::command(&made.token))
            }
        }
        (table(view, &found.items))
        @if let Some(next) = &found.next {
            nav.row aria-label="Pages of the list" { a.button rel="next" href=(format!("/tokens?{}", view.query.with("cursor", Some(next)))) { "More" } }
        }
        (new_form(view))
    };
    // Not live: what is shown once must not be taken away by a refresh.
    Ok(layout::page(view, &Head { title: "Tokens", section: "Tokens", live: "" }, &body))
}

fn table(view: &View, tokens: &[Token]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Name" } th.fit scope="col" { "Role" } th scope="col" { "Namespaces" } th.fit scope="col" { "Id" }
                th.fit scope="col" { "Made" } th.fit scope="col" { "Expires" } th.fit scope="col" { "End it" }
            } }
            tbody { @for token in tokens { (row(view, token)) } }
        } }
    }
}

fn row(view: &View, token: &Token) -> Markup {
    let is_mine = view.caller.token().is_some_and(|mine| mine.as_str() == token.id);
    html! {
        tr data-key=(token.id) {
            td { (plain(&token.name)) @if is_mine { span.soft { " (yours)" } } @if token.may_exec { span.soft { " may start programs" } } }
            td.fit { (token.role) }
            td { (token.namespaces.as_ref().map_or(html! { "all" }, |names| plain(&names.join(", ")))) }
            td.fit { code { (token.id) } }
            td.fit { (when(token.created_at, view.now)) }
            td.fit { @match token.expires_at { Some(at) => (when(at, view.now)), None => "never" } }
            td.fit {
                details {
                    summary { "Revoke…" }
                    p.fine { "Whoever uses it is refused from then on" @if is_mine { ", you included" } "." }
                    (layout::button(view, "/tokens", &format!("Revoke {}", plain_attribute(&token.name)), &[("revoke", &token.id)], "danger"))
                }
            }
        }
    }
}

fn new_form(view: &View) -> Markup {
    html! {
        section {
            h2 { "New token" }
            form.stack method="post" action="/tokens" {
                (layout::key(view))
                label for="name" { "Name: who or what will use it" }
                input #name name="name" required maxlength="255";
                label for="role" { "Role" }
                select #role name="role" { @for role in Role::ALL { option value=(role) { (role) ": " (may(role)) } } }
                label for="namespaces" { "Namespaces, separated by commas (empty: all)" }
                input #namespaces name="namespaces";
                label for="days" { "Days until it expires (empty: never)" }
                input #days name="days" type="number" min="1" max="3650";
                @if view.caller.may_exec() {
                    label { input type="checkbox" name="may_exec" value="yes"; " May enqueue tasks that start programs" }
                }
                button.primary { "Make" }
            }
        }
    }
}

fn may(role: Role) -> &'static str {
    match role {
        Role::Viewer => "looks",
        Role::Producer => "puts tasks in",
        Role::Worker => "runs tasks",
        Role::Operator => "looks after tasks, queues and runners",
        Role::Admin => "everything",
    }
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    let (state, caller) = (State(view.state.clone()), view.caller.clone());
    if let Some(id) = fields.text("revoke") {
        api::revoke_token(state, caller, Name(id)).await?;
        return Ok(redirect("/tokens"));
    }
    let role: Role =
        fields.get("role").unwrap_or_default().parse().map_err(|error: crate::security::UnknownRole| {
            Problem::bad_request("invalid_field", error.to_string(), "go back and choose a role")
        })?;
    let names =
        fields.get("namespaces").map(|text| text.split(',').map(|name| name.trim().to_owned()).collect());
    let days: Option<u64> = fields.get("days").map(str::parse).transpose().map_err(|_| {
        Problem::bad_request(
            "invalid_field",
            "the days are not a whole number",
            "go back and give a number, or nothing",
        )
    })?;
    let new = NewToken {
        name: fields.text("name").unwrap_or_default(),
        role,
        namespaces: names,
        may_exec: fields.get("may_exec").is_some(),
        expires_in_ms: days.map(|days| days.saturating_mul(86_400_000)),
    };
    let (_, made) = api::create_token(state, caller, Body(new)).await?;
    Ok(page(&view, Some(&made.0)).await?.into_response())
}
