//! Cron and event schedules.

mod problem;

use std::borrow::Cow;
use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use weaver_api::{
    self as wire, Enqueued, ExpectQuery, NamespaceQuery, NoticeEntry, Notices, NoticesQuery, Page,
    PreviewRequest, PutSchedule, Schedule, SchedulesQuery, UpcomingQuery, UpcomingRuns, namespace_or_default,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::id::Version;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::ports::{Cursor, ReadFrom, Seq, StreamKey};
use weaver_scheduler::calendar::{Schedule as Calendar, ScheduleSpec};
use weaver_scheduler::definition::{Definition, DefinitionSpec, NOTICES_STREAM, Notice, Trigger};

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{ApiResult, AppState};
use crate::problem::Problem;

/// Upcoming runs when a request gives no `count`.
const FIRES_DEFAULT: u32 = 10;
/// The most upcoming runs of one response.
pub(super) const FIRES_MAX: u32 = 1000;

/// List schedules.
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(SchedulesQuery),
    responses((status = 200, description = "A page of schedules, by name", body = Page<Schedule>)))]
pub(crate) async fn list_schedules(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<SchedulesQuery>,
) -> ApiResult<Json<Page<Schedule>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let prefix = query.prefix.unwrap_or_default();
    let limit = state.page(query.limit)?;
    let page = state.scheduler.list(&namespace, &prefix, query.cursor.map(Cursor), limit).await?;
    let items = page.items.iter().map(Schedule::from).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// Read a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The schedule", body = Schedule)))]
pub(crate) async fn get_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<Json<Schedule>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    Ok(Json(Schedule::from(&state.scheduler.get(&namespace, &name).await?)))
}

/// Create or update a schedule.
///
/// Optimistic concurrency: `expected_version` is 0 to create it, and the version that was read to update it.
#[utoipa::path(put, path = "/api/v1/schedules/{name}", tag = "schedules", request_body = PutSchedule,
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The updated schedule", body = Schedule),
        (status = 201, description = "The created schedule", body = Schedule)))]
pub(crate) async fn put_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
    Body(put): Body<PutSchedule>,
) -> ApiResult<(StatusCode, Json<Schedule>)> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let spec = spec(put.spec)?;
    may_make(&caller, &namespace, &spec.task.task_type)?;
    // The scheduler refuses an invalid name, with its field.
    if let Some(Ok(queue)) = spec.task.queue.as_deref().map(QueueName::try_from) {
        state.queue_quota.check(&state, &namespace, &HashSet::from([&queue])).await?;
    }
    let (status, action, definition) = match put.expected_version {
        0 => (StatusCode::CREATED, "schedule.add", state.scheduler.add(&namespace, &name, spec).await?),
        version => {
            let edited = state.scheduler.edit(&namespace, &name, Version(version), spec).await?;
            (StatusCode::OK, "schedule.edit", edited)
        }
    };
    audit(&state, &caller, &definition, action).await;
    Ok((status, Json(Schedule::from(&definition))))
}

/// Validates like [`put_schedule`] without storing anything: for a form that is being filled in.
pub(crate) fn check_schedule(
    state: &AppState,
    caller: &Caller,
    namespace: &Namespace,
    name: &str,
    spec: wire::ScheduleSpec,
) -> ApiResult<()> {
    caller.require(Permission::ManageSchedules, namespace)?;
    let spec = self::spec(spec)?;
    state.scheduler.check(name, &spec)?;
    may_make(caller, namespace, &spec.task.task_type)
}

/// Remove a schedule. Its tasks are kept.
#[utoipa::path(delete, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 204, description = "The schedule is removed")))]
pub(crate) async fn remove_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> ApiResult<StatusCode> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    state.scheduler.remove(&namespace, &name, query.expected_version.map(Version)).await?;
    let record = AuditRecord::new("schedule.remove", format!("schedule/{name}"));
    state.audit.write(&caller, &namespace, record).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Enable a schedule. Runs that were due before are not caught up.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/enable", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 200, description = "The updated schedule", body = Schedule)))]
pub(crate) async fn enable_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> ApiResult<Json<Schedule>> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let found = state.scheduler.get(&namespace, &name).await?;
    may_make(&caller, &namespace, &found.spec.task.task_type)?;
    let expected = query.expected_version.map_or(found.version, Version);
    let definition = state.scheduler.enable(&namespace, &name, Some(expected)).await?;
    audit(&state, &caller, &definition, "schedule.enable").await;
    Ok(Json(Schedule::from(&definition)))
}

/// Disable a schedule. Its tasks continue.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/disable", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 200, description = "The updated schedule", body = Schedule)))]
pub(crate) async fn disable_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> ApiResult<Json<Schedule>> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let expected = query.expected_version.map(Version);
    let definition = state.scheduler.disable(&namespace, &name, expected).await?;
    audit(&state, &caller, &definition, "schedule.disable").await;
    Ok(Json(Schedule::from(&definition)))
}

/// Run a schedule now, also if it is disabled.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/run-now", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 201, description = "The enqueued task", body = Enqueued)))]
pub(crate) async fn run_schedule_now(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
) -> ApiResult<(StatusCode, Json<Enqueued>)> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let found = state.scheduler.get(&namespace, &name).await?;
    may_make(&caller, &namespace, &found.spec.task.task_type)?;
    let task = state.scheduler.run_now(&namespace, &name).await?;
    let record =
        AuditRecord::new("schedule.run_now", format!("schedule/{name}")).detail(format!("task {}", task.id));
    state.audit.write(&caller, &namespace, record).await;
    let enqueued = Enqueued { id: task.id.to_string(), namespace: namespace.to_string(), existing: false };
    Ok((StatusCode::CREATED, Json(enqueued)))
}

/// List the upcoming runs of a schedule, with DST gaps and folds.
#[utoipa::path(get, path = "/api/v1/schedules/{name}/upcoming", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), UpcomingQuery),
    responses((status = 200, description = "The upcoming runs", body = UpcomingRuns)))]
pub(crate) async fn upcoming_runs(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<UpcomingQuery>,
) -> ApiResult<Json<UpcomingRuns>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let count = fires(query.count)?;
    let definition = state.scheduler.get(&namespace, &name).await?;
    let from = query.from.unwrap_or_else(|| state.clock.now());
    next(definition.spec.trigger, from, count)
}

/// Preview the upcoming runs of a schedule that is not stored.
#[utoipa::path(post, path = "/api/v1/schedule-preview", tag = "schedules", request_body = PreviewRequest,
    responses((status = 200, description = "The upcoming runs", body = UpcomingRuns)))]
pub(crate) async fn preview_schedule(
    State(state): State<AppState>,
    _caller: Caller,
    Body(request): Body<PreviewRequest>,
) -> ApiResult<Json<UpcomingRuns>> {
    let count = fires(request.count)?;
    let from = request.from.unwrap_or_else(|| state.clock.now());
    let PreviewRequest { schedule, tz, gap, fold, .. } = request;
    next(Trigger::Time(ScheduleSpec { schedule, tz, gap, fold }), from, count)
}

/// List notices: scheduled runs that were merged, skipped or replaced, and why.
#[utoipa::path(get, path = "/api/v1/notices", tag = "schedules", params(NoticesQuery),
    responses((status = 200, description = "Notices, oldest first", body = Notices)))]
pub(crate) async fn list_notices(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NoticesQuery>,
) -> ApiResult<Json<Notices>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let stream = StreamKey::new(namespace, NOTICES_STREAM);
    let from = ReadFrom::After(Seq(query.after.unwrap_or_default()));
    let page = state.store.read_entries(&stream, from, limit).await?;
    // Entries of a newer version may be unreadable; they are skipped.
    let items = page.entries.iter().filter_map(|entry| {
        let notice: Notice = serde_json::from_slice(&entry.body).ok()?;
        Some(NoticeEntry { seq: entry.seq.0, notice: (&notice).into() })
    });
    Ok(Json(Notices { items: items.collect() }))
}

fn spec(wire: wire::ScheduleSpec) -> ApiResult<DefinitionSpec> {
    wire.try_into().map_err(|error| unstorable("spec.task.payload", &error))
}

pub(super) fn value(json: &wire::Json, field: &'static str) -> ApiResult<Value> {
    json.decode().map_err(|error| unstorable(field, &error))
}

/// JSON that is nested too deeply, or has a number out of range.
fn unstorable(field: &'static str, error: &serde_json::Error) -> Problem {
    let detail = format!("{field}: {error}");
    Problem::bad_request("invalid_body", detail, "send less nested JSON, with numbers in range").field(field)
}

fn managed(caller: &Caller, namespace: Option<&str>) -> ApiResult<Namespace> {
    let namespace = namespace_or_default(namespace)?;
    caller.require(Permission::ManageSchedules, &namespace)?;
    Ok(namespace)
}

/// Enabling or running a schedule enqueues its task: it needs the same permission.
fn may_make(caller: &Caller, namespace: &Namespace, task_type: &str) -> ApiResult<()> {
    let task_type = TaskType::try_from(task_type)?;
    Ok(caller.require_enqueue(namespace, &task_type)?)
}

async fn audit(state: &AppState, caller: &Caller, definition: &Definition, action: &'static str) {
    let detail = match &definition.spec.trigger {
        Trigger::Time(spec) => match &spec.tz {
            Some(tz) => Cow::Owned(format!("{} in {tz}", spec.schedule)),
            None => Cow::Borrowed(spec.schedule.as_str()),
        },
        Trigger::Event { event_type } => Cow::Owned(format!("on event {event_type}")),
    };
    let detail = format!("version {}: {detail}, task {}", definition.version, definition.spec.task.task_type);
    let record = AuditRecord::new(action, format!("schedule/{}", definition.name)).detail(detail);
    state.audit.write(caller, &definition.namespace, record).await;
}

fn fires(count: Option<u32>) -> Result<usize, Invalid> {
    let count = count.unwrap_or(FIRES_DEFAULT);
    if (1..=FIRES_MAX).contains(&count) {
        return Ok(count as usize);
    }
    let problem = FieldProblem::OutOfRange { value: count.into(), min: 1, max: FIRES_MAX.into() };
    Err(Invalid::new("count", problem))
}

fn next(trigger: Trigger, from: weaver_core::time::Timestamp, count: usize) -> ApiResult<Json<UpcomingRuns>> {
    let Trigger::Time(spec) = trigger else { return Ok(Json(UpcomingRuns { runs: Vec::new() })) };
    let calendar = Calendar::new(spec).map_err(weaver_scheduler::SchedulerError::from)?;
    Ok(Json(UpcomingRuns::next(&calendar, from, count)))
}
