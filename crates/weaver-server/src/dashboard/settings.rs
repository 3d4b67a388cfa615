//! Settings of the whole installation: what holds, what would by default, and what it is for.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{ExpectedVersionQuery, Json, Problem as Wrong, PutSetting, Setting};
use weaver_scheduler::settings::{KNOWN, ValueType};

use super::form::Fields;
use super::gate::redirect;
use super::layout::{self, Head, Html};
use super::text::{plain, sentence, when};
use super::view::View;
use crate::api::extract::{Body, Name, Params};
use crate::api::{Permission, settings as api};
use crate::problem::Problem;

/// What was not accepted.
struct Refused<'a> {
    key: &'a str,
    typed: &'a str,
    why: Wrong,
}

pub(super) async fn show(view: View) -> Result<Html, Problem> {
    page(&view, None).await
}

async fn page(view: &View, refused: Option<&Refused<'_>>) -> Result<Html, Problem> {
    let settings = api::list_settings(State(view.state.clone()), view.caller.clone()).await?.0.items;
    let may = view.may_everywhere(Permission::ManageSettings);
    let body = html! {
        h1 { "Settings" }
        p { "They hold for every node on this store, at once and without a restart." }
        @if let Some(refused) = refused {
            div.alert role="alert" {
                p { b { "Not changed. " } a href=(format!("#{}", refused.key)) { (plain(refused.key)) } ": " (plain(&refused.why.detail)) "." }
                p { (plain(&sentence(&refused.why.next))) }
            }
        }
        div.settings { @for setting in &settings { (part(view, setting, may, refused)) } }
        @if view.may_everywhere(Permission::ReadAudit) {
            p { "Every change is written down, with whoever made it: " a href=(view.link("/audit", &[("of", "server")])) { "Audit" } "." }
        }
    };
    // Live only while nothing was refused: the answer to a form cannot be asked for again.
    let live = if refused.is_none() { "any" } else { "" };
    Ok(layout::page(view, &Head { title: "Settings", section: "Settings", live }, &body))
}

fn part(view: &View, setting: &Setting, may: bool, refused: Option<&Refused<'_>>) -> Markup {
    let refused = refused.filter(|refused| refused.key == setting.key);
    let is_changed = setting.value != setting.default;
    html! {
        section.setting id=(setting.key) {
            h2 { code { (setting.key) } @if is_changed { " " span.state.retry_scheduled { "changed" } } }
            p { (sentence(&setting.about)) }
            div.row {
                @if may { (change(view, setting, refused)) } @else { b { (setting.value.as_str()) } }
                @if may && is_changed {
                    (layout::button(view, &view.link("/settings", &[]), &format!("Reset to {}", setting.default.as_str()),
                        &[("key", &setting.key), ("action", "reset"), ("version", &setting.version.to_string())], ""))
                }
            }
            p.fine {
                "Default " (setting.default.as_str()) ", accepts " (setting.accepts)
                @if let Some(at) = setting.updated_at { ", changed " (when(at, view.now)) }
            }
        }
    }
}

fn change(view: &View, setting: &Setting, refused: Option<&Refused<'_>>) -> Markup {
    let value = refused.map_or(setting.value.as_str(), |refused| refused.typed);
    let label = format!("Value of {}", setting.key);
    let wrong = refused.map(|_| "true");
    let kind = KNOWN.iter().find(|known| known.key == setting.key).map(|known| known.accepts);
    html! {
        form.inline method="post" action=(view.link("/settings", &[])) {
            (layout::key(view))
            input type="hidden" name="key" value=(setting.key);
            input type="hidden" name="version" value=(setting.version);
            @match kind {
                Some(ValueType::Number { min, max, .. }) => {
                    input type="number" name="value" value=(value) min=(min) max=(max) required aria-label=(label) aria-invalid=[wrong];
                }
                Some(ValueType::Switch { .. }) => {
                    select name="value" aria-label=(label) aria-invalid=[wrong] {
                        @for choice in ["true", "false"] { option value=(choice) selected[value == choice] { (choice) } }
                    }
                }
                None => input name="value" value=(value) required aria-label=(label) aria-invalid=[wrong];
            }
            " " button name="action" value="set" { "Set" }
        }
    }
}

pub(super) async fn act(view: View, fields: Fields) -> Result<Response, Problem> {
    // Asked first: whoever may not change it is not told what is wrong with the change.
    view.caller.require_everywhere(Permission::ManageSettings)?;
    let key = fields.get("key").unwrap_or_default();
    let Err(problem) = changed(&view, &fields, key).await else {
        return Ok(redirect(&format!("{}#{key}", view.link("/settings", &[]))));
    };
    let why = problem.to_wire();
    let status = StatusCode::from_u16(why.status).unwrap_or(StatusCode::BAD_REQUEST);
    if status == StatusCode::NOT_FOUND {
        return Err(problem);
    }
    let typed = fields.get("value").unwrap_or_default();
    let shown = page(&view, Some(&Refused { key, typed, why })).await?;
    Ok((status, shown.into_response()).into_response())
}

async fn changed(view: &View, fields: &Fields, key: &str) -> Result<(), Problem> {
    let (state, caller, name) = (State(view.state.clone()), view.caller.clone(), Name(key.to_owned()));
    let expected_version = fields.get("version").and_then(|text| text.parse().ok());
    if fields.get("action") == Some("reset") {
        let query = Params(ExpectedVersionQuery { expected_version });
        return api::reset_setting(state, caller, name, query).await.map(drop);
    }
    let typed = fields.get("value").unwrap_or_default().trim();
    // What is no JSON is a text: the setting says what it accepts.
    let value = Json::from_text(typed).or_else(|_| Json::of(typed)).map_err(|error| {
        Problem::bad_request("invalid_field", error.to_string(), "give a number, true or false")
    })?;
    api::put_setting(state, caller, name, Body(PutSetting { value, expected_version })).await.map(drop)
}
