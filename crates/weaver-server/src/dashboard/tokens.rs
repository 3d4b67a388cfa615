//! API tokens: list, create, revoke. A new token is shown once.

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

async fn page(view: &View, created: Option<&CreatedToken>) -> Result<Html, Problem> {
    let query = Params(PageQuery { cursor: view.query.text("cursor"), limit: Some(TOKENS) });
    let found = api::list_tokens(State(view.state.clone()), view.caller.clone(), query).await?.0;
    let body = html! {
        h1 { "Tokens" }
        @if let Some(created) = created {
            div.done role="status" {
                p { "Token " b { (plain(&created.info.name)) } " created. Copy it now, it is not shown again." }
                (layout::command(&created.token))
            }
        }
        (table(view, &found.items))
        @if let Some(next) = &found.next {
            (layout::next_page(&format!("/tokens?{}", view.query.with("cursor", Some(next)))))
        }
        (new_form(view))
    };
    // Not live: a refresh would remove the token that is shown once.
    Ok(layout::page(view, &Head { title: "Tokens", section: "Tokens", live: "" }, &body))
}

fn table(view: &View, tokens: &[Token]) -> Markup {
    html! {
        div.wide { table {
            thead { tr {
                th scope="col" { "Name" } th.fit scope="col" { "Role" } th scope="col" { "Namespaces" } th.fit scope="col" { "ID" }
                th.fit scope="col" { "Created" } th.fit scope="col" { "Expires" }
                th.fit scope="col" { "Actions" }
            } }
            tbody { @for token in tokens { (row(view, token)) } }
        } }
    }
}

fn row(view: &View, token: &Token) -> Markup {
    let is_mine = view.caller.token().is_some_and(|mine| mine.as_str() == token.id);
    html! {
        tr data-key=(token.id) {
            td { (plain(&token.name)) @if is_mine { span.soft { " (yours)" } } @if token.may_exec { span.soft { " may enqueue exec and prompt tasks" } } }
            td.fit { (token.role) }
            td { (token.namespaces.as_ref().map_or(html! { "all" }, |names| plain(&names.join(", ")))) }
            td.fit { code { (token.id) } }
            td.fit { (when(token.created_at, view.now)) }
            td.fit { @match token.expires_at { Some(at) => (when(at, view.now)), None => "never" } }
            td.fit {
                details {
                    summary { "Revoke…" }
                    p.fine { "Requests with it will be rejected" @if is_mine { ", including yours" } "." }
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
                label for="name" { "Name (who or what will use it)" }
                input #name name="name" required maxlength="255";
                label for="role" { "Role" }
                select #role name="role" { @for role in Role::ALL { option value=(role) { (role) ": " (summary(role)) } } }
                label for="namespaces" { "Namespaces, comma-separated (empty: all)" }
                input #namespaces name="namespaces";
                label for="days" { "Expires in days (empty: never)" }
                input #days name="days" type="number" min="1" max="3650";
                @if view.caller.may_exec() {
                    label { input type="checkbox" name="may_exec" value="yes"; " May enqueue exec and prompt tasks" }
                }
                button.primary { "Create token" }
            }
        }
    }
}

fn summary(role: Role) -> &'static str {
    match role {
        Role::Viewer => "read only",
        Role::Producer => "enqueue tasks",
        Role::Worker => "run tasks",
        Role::Operator => "manage tasks, queues, schedules and workers",
        Role::Admin => "full access",
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
            Problem::bad_request("invalid_field", error.to_string(), "go back and select a role")
        })?;
    let names =
        fields.get("namespaces").map(|text| text.split(',').map(|name| name.trim().to_owned()).collect());
    let days: Option<u64> = fields.get("days").map(str::parse).transpose().map_err(|_| {
        Problem::bad_request(
            "invalid_field",
            "the number of days is not a whole number",
            "go back and enter a number, or leave it empty",
        )
    })?;
    let new = NewToken {
        name: fields.text("name").unwrap_or_default(),
        role,
        namespaces: names,
        may_exec: fields.get("may_exec").is_some(),
        expires_in_ms: days.map(|days| days.saturating_mul(86_400_000)),
    };
    let (_, created) = api::create_token(state, caller, Body(new)).await?;
    Ok(page(&view, Some(&created.0)).await?.into_response())
}
