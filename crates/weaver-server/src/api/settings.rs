//! Settings of the whole installation, which apply without a restart.

use axum::Json;
use axum::extract::State;
use weaver_api::{ExpectedVersionQuery, PutSetting, Setting, Settings};
use weaver_core::id::Version;
use weaver_scheduler::settings::{Setting as Known, SettingChange};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::schedules::value;
use super::{ApiResult, AppState};

/// List settings, with their descriptions and allowed values.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings",
    responses((status = 200, description = "Every setting, by name", body = Settings)))]
pub(crate) async fn list_settings(
    State(state): State<AppState>,
    caller: Caller,
) -> ApiResult<Json<Settings>> {
    caller.require_everywhere(Permission::Read)?;
    let settings = state.scheduler.settings().list().await?;
    Ok(Json(Settings { items: settings.iter().map(shown).collect() }))
}

/// Change a setting. It applies on every node, without a restart.
#[utoipa::path(put, path = "/api/v1/settings/{key}", tag = "settings", request_body = PutSetting,
    params(("key" = String, Path, description = "The setting's name", min_length = 1)),
    responses((status = 200, description = "The updated setting", body = Setting)))]
pub(crate) async fn put_setting(
    State(state): State<AppState>,
    caller: Caller,
    Name(key): Name,
    Body(put): Body<PutSetting>,
) -> ApiResult<Json<Setting>> {
    caller.require_everywhere(Permission::ManageSettings)?;
    let wanted = value(&put.value, "value")?;
    let change = state.scheduler.settings().put(&key, wanted, put.expected_version.map(Version)).await?;
    audited(&state, &caller, &change).await
}

/// Reset a setting to its default.
#[utoipa::path(delete, path = "/api/v1/settings/{key}", tag = "settings",
    params(("key" = String, Path, description = "The setting's name", min_length = 1),
        ExpectedVersionQuery),
    responses((status = 200, description = "The updated setting", body = Setting)))]
pub(crate) async fn reset_setting(
    State(state): State<AppState>,
    caller: Caller,
    Name(key): Name,
    Params(query): Params<ExpectedVersionQuery>,
) -> ApiResult<Json<Setting>> {
    caller.require_everywhere(Permission::ManageSettings)?;
    let change = state.scheduler.settings().reset(&key, query.expected_version.map(Version)).await?;
    audited(&state, &caller, &change).await
}

async fn audited(state: &AppState, caller: &Caller, change: &SettingChange) -> ApiResult<Json<Setting>> {
    let record = AuditRecord::new("setting.put", format!("setting/{}", change.key));
    let record = record.detail(format!("from {} to {}", change.before, change.after));
    state.audit.write_of_server(caller, record).await;
    Ok(Json(shown(&state.scheduler.settings().get(change.key).await?)))
}

fn shown(setting: &Known) -> Setting {
    Setting {
        key: setting.key.to_owned(),
        description: setting.description.to_owned(),
        allowed: setting.allowed.clone(),
        value: (&setting.value).into(),
        default: (&setting.default).into(),
        version: setting.version.0,
        updated_at: setting.updated_at,
    }
}
