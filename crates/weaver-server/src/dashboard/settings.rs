//! Settings of the whole installation: value, default, description.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{ExpectedVersionQuery, Json, Problem as WireProblem, PutSetting, Setting};
use weaver_scheduler::settings::{KNOWN, ValueType};

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::text::{plain, sentence, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, settings as api};
use crate::problem::Problem;

/// A change that was refused, shown with the input.
struct Refused<'a> {
    key: &'a str,
    input: &'a str,
    problem: WireProblem,
}

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    page(&view, None).await
}

async fn page(view: &View, refused: Option<&Refused<'_>>) -> Result<Html, Problem> {
    let settings = api::list_settings(State(view.state.clone()), view.caller.clone()).await?.0.items;
    let may = view.may_everywhere(Permission::ManageSettings);
    let body = html! {
        h1 { "Settings" }
        p { "Settings apply to every node on this store immediately, without a restart." }
        @if let Some(refused) = refused {
            div.alert role="alert" {
                p { b { "Not changed. " } a href=(format!("#{}", refused.key)) { (plain(refused.key)) } ": " (plain(&refused.problem.detail)) "." }
                p { (plain(&sentence(&refused.problem.hint))) }
            }
        }
        div.settings { @for setting in &settings { (part(view, setting, may, refused)) } }
        @if view.may_everywhere(Permission::ReadAudit) {
            p { "Every change is recorded in the " a href=(view.link("/audit", &[("of", "server")])) { "audit log" } "." }
        }
    };
    // Not live after a refusal: the answer to a POST cannot be fetched again.
    let live = if refused.is_none() { "any" } else { "" };
    Ok(layout::page(view, &Head { title: "Settings", section: "Settings", live }, &body))
}

fn part(view: &View, setting: &Setting, may: bool, refused: Option<&Refused<'_>>) -> Markup {
    let refused = refused.filter(|refused| refused.key == setting.key);
    let is_changed = setting.value != setting.default;
    html! {
        section.setting id=(setting.key) {
            h2 { code { (setting.key) } @if is_changed { " " span.state.retry_scheduled { "changed" } } }
            p { (sentence(&setting.description)) }
            div.row {
                @if may { (change(view, setting, refused)) } @else { b { (setting.value.as_str()) } }
                @if may && is_changed {
                    (layout::button(view, &view.link("/settings", &[]), &format!("Reset to {}", setting.default.as_str()),
                        &[("key", &setting.key), ("action", "reset"), ("version", &setting.version.to_string())], ""))
                }
            }
            p.fine {
                "Default " (setting.default.as_str()) ", allowed " (setting.allowed)
                @if let Some(at) = setting.updated_at { ", changed " (when(at, view.now)) }
            }
        }
    }
}

fn change(view: &View, setting: &Setting, refused: Option<&Refused<'_>>) -> Markup {
    let value = refused.map_or(setting.value.as_str(), |refused| refused.input);
    let label = format!("Value of {}", setting.key);
    let invalid = refused.map(|_| "true");
    let kind = KNOWN.iter().find(|known| known.key == setting.key).map(|known| known.allowed);
    html! {
        form.inline method="post" action=(view.link("/settings", &[])) {
            (layout::key(view))
            input type="hidden" name="key" value=(setting.key);
            input type="hidden" name="version" value=(setting.version);
            @match kind {
                Some(ValueType::Number { min, max, .. }) => {
                    input type="number" name="value" value=(value) min=(min) max=(max) required aria-label=(label) aria-invalid=[invalid];
                }
                Some(ValueType::Switch { .. }) => {
                    select name="value" aria-label=(label) aria-invalid=[invalid] {
                        @for choice in ["true", "false"] { option value=(choice) selected[value == choice] { (choice) } }
                    }
                }
                None => input name="value" value=(value) required aria-label=(label) aria-invalid=[invalid];
            }
            " " button name="action" value="set" { "Set" }
        }
    }
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    // Checked first: without the permission, the reply must not reveal whether the value is valid.
    view.caller.require_everywhere(Permission::ManageSettings)?;
    let key = fields.get("key").unwrap_or_default();
    let Err(problem) = changed(&view, &fields, key).await else {
        return Ok(redirect(&format!("{}#{key}", view.link("/settings", &[]))));
    };
    let refusal = problem.to_wire();
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    if status == StatusCode::NOT_FOUND {
        return Err(problem);
    }
    let input = fields.get("value").unwrap_or_default();
    let shown = page(&view, Some(&Refused { key, input, problem: refusal })).await?;
    Ok((status, shown.into_response()).into_response())
}

async fn changed(view: &View, fields: &Fields, key: &str) -> Result<(), Problem> {
    let (state, caller, name) = (State(view.state.clone()), view.caller.clone(), Name(key.to_owned()));
    let expected_version = fields.get("version").and_then(|text| text.parse().ok());
    if fields.get("action") == Some("reset") {
        let query = Params(ExpectedVersionQuery { expected_version });
        return api::reset_setting(state, caller, name, query).await.map(drop);
    }
    let input = fields.get("value").unwrap_or_default().trim();
    // Input that is not JSON is sent as a string: the setting decides whether it is valid.
    let value = Json::from_text(input).or_else(|_| Json::of(input)).map_err(|error| {
        Problem::bad_request("invalid_field", error.to_string(), "enter a number, true or false")
    })?;
    api::put_setting(state, caller, name, Body(PutSetting { value, expected_version })).await.map(drop)
}
