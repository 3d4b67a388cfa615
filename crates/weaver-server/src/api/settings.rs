//! Settings of the whole installation, changed while it runs.

use axum::Json;
use axum::extract::State;
use weaver_api::{ExpectedVersionQuery, PutSetting, Setting, Settings};
use weaver_core::id::Version;
use weaver_scheduler::settings::{Setting as Known, SettingChange};

use super::audit::Deed;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::schedules::value;
use super::{Answer, AppState};

/// The settings, with what they are for and what they accept.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings",
    responses((status = 200, description = "Every setting, by name", body = Settings)))]
pub(crate) async fn list_settings(State(state): State<AppState>, caller: Caller) -> Answer<Json<Settings>> {
    caller.require_everywhere(Permission::Read)?;
    let settings = state.scheduler.settings().list().await?;
    Ok(Json(Settings { items: settings.iter().map(shown).collect() }))
}

/// Change a setting, on every node, without a restart.
#[utoipa::path(put, path = "/api/v1/settings/{key}", tag = "settings", request_body = PutSetting,
    params(("key" = String, Path, description = "The setting's name", min_length = 1)),
    responses((status = 200, description = "The setting now", body = Setting)))]
pub(crate) async fn put_setting(
    State(state): State<AppState>,
    caller: Caller,
    Name(key): Name,
    Body(put): Body<PutSetting>,
) -> Answer<Json<Setting>> {
    caller.require_everywhere(Permission::ManageSettings)?;
    let wanted = value(&put.value, "value")?;
    let change = state.scheduler.settings().put(&key, wanted, put.expected_version.map(Version)).await?;
    answer(&state, &caller, &change).await
}

/// Put a setting back to its default.
#[utoipa::path(delete, path = "/api/v1/settings/{key}", tag = "settings",
    params(("key" = String, Path, description = "The setting's name", min_length = 1),
        ExpectedVersionQuery),
    responses((status = 200, description = "The setting now", body = Setting)))]
pub(crate) async fn reset_setting(
    State(state): State<AppState>,
    caller: Caller,
    Name(key): Name,
    Params(query): Params<ExpectedVersionQuery>,
) -> Answer<Json<Setting>> {
    caller.require_everywhere(Permission::ManageSettings)?;
    let change = state.scheduler.settings().reset(&key, query.expected_version.map(Version)).await?;
    answer(&state, &caller, &change).await
}

async fn answer(state: &AppState, caller: &Caller, change: &SettingChange) -> Answer<Json<Setting>> {
    let deed = Deed::new("setting.put", format!("setting/{}", change.key));
    let deed = deed.detail(format!("from {} to {}", change.before, change.after));
    state.audit.write_of_server(caller, deed).await;
    Ok(Json(shown(&state.scheduler.settings().get(change.key).await?)))
}

fn shown(setting: &Known) -> Setting {
    Setting {
        key: setting.key.to_owned(),
        about: setting.about.to_owned(),
        accepts: setting.accepts.clone(),
        value: (&setting.value).into(),
        default: (&setting.default).into(),
        version: setting.version.0,
        updated_at: setting.updated_at,
    }
}
