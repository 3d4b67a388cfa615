//! Schedules: what is done when, or when something happens.

mod problem;

use std::borrow::Cow;
use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use weaver_api::{
    self as wire, Enqueued, ExpectQuery, Fires, FiresQuery, NamespaceQuery, NoticeEntry, Notices,
    NoticesQuery, Page, PreviewRequest, PutSchedule, Schedule, SchedulesQuery, namespace_or_default,
};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::id::Version;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::ports::{Cursor, ReadFrom, Seq, StreamKey};
use weaver_scheduler::calendar::{Schedule as Calendar, ScheduleSpec};
use weaver_scheduler::definition::{Definition, DefinitionSpec, NOTICES_STREAM, Notice, Trigger};

use super::audit::Deed;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{Answer, AppState};
use crate::problem::Problem;

/// Fires of a question that asks for no number.
const FIRES_DEFAULT: u32 = 10;
/// The most fires of one answer.
pub(super) const FIRES_MAX: u32 = 1000;

/// Schedules, by name.
#[utoipa::path(get, path = "/api/v1/schedules", tag = "schedules", params(SchedulesQuery),
    responses((status = 200, description = "A page of schedules, by name", body = Page<Schedule>)))]
pub(crate) async fn list_schedules(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<SchedulesQuery>,
) -> Answer<Json<Page<Schedule>>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let prefix = query.prefix.unwrap_or_default();
    let limit = state.page(query.limit)?;
    let page = state.scheduler.list(&namespace, &prefix, query.cursor.map(Cursor), limit).await?;
    let items = page.items.iter().map(Schedule::from).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// One schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The schedule", body = Schedule)))]
pub(crate) async fn get_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
) -> Answer<Json<Schedule>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    Ok(Json(Schedule::from(&state.scheduler.get(&namespace, &name).await?)))
}

/// Add a schedule, or change it.
///
/// `expected_version` is 0 for a new one, and what was read for one that is there: two people who change it
/// at once do not overwrite each other.
#[utoipa::path(put, path = "/api/v1/schedules/{name}", tag = "schedules", request_body = PutSchedule,
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 200, description = "The schedule now", body = Schedule),
        (status = 201, description = "The new schedule", body = Schedule)))]
pub(crate) async fn put_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
    Body(put): Body<PutSchedule>,
) -> Answer<(StatusCode, Json<Schedule>)> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let spec = spec(put.spec)?;
    may_make(&caller, &namespace, &spec.task.task_type)?;
    // A name that is none is refused with its place by the scheduler.
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

/// Refuses what [`put_schedule`] would refuse for what it says, and stores nothing: for a form that is being
/// filled in.
pub(crate) fn check_schedule(
    state: &AppState,
    caller: &Caller,
    namespace: &Namespace,
    name: &str,
    spec: wire::ScheduleSpec,
) -> Answer<()> {
    caller.require(Permission::ManageSchedules, namespace)?;
    let spec = self::spec(spec)?;
    state.scheduler.check(name, &spec)?;
    may_make(caller, namespace, &spec.task.task_type)
}

/// Remove a schedule. The tasks it made stay.
#[utoipa::path(delete, path = "/api/v1/schedules/{name}", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 204, description = "It is removed")))]
pub(crate) async fn remove_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> Answer<StatusCode> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    state.scheduler.remove(&namespace, &name, query.expected_version.map(Version)).await?;
    let deed = Deed::new("schedule.remove", format!("schedule/{name}"));
    state.audit.write(&caller, &namespace, deed).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Let a schedule fire, from now on.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/enable", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 200, description = "The schedule now", body = Schedule)))]
pub(crate) async fn enable_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> Answer<Json<Schedule>> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let found = state.scheduler.get(&namespace, &name).await?;
    may_make(&caller, &namespace, &found.spec.task.task_type)?;
    let expected = query.expected_version.map_or(found.version, Version);
    let definition = state.scheduler.enable(&namespace, &name, Some(expected)).await?;
    audit(&state, &caller, &definition, "schedule.enable").await;
    Ok(Json(Schedule::from(&definition)))
}

/// Let a schedule fire no more. The tasks it made go on.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/disable", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), ExpectQuery),
    responses((status = 200, description = "The schedule now", body = Schedule)))]
pub(crate) async fn disable_schedule(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<ExpectQuery>,
) -> Answer<Json<Schedule>> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let expected = query.expected_version.map(Version);
    let definition = state.scheduler.disable(&namespace, &name, expected).await?;
    audit(&state, &caller, &definition, "schedule.disable").await;
    Ok(Json(Schedule::from(&definition)))
}

/// Make a schedule's task now, whether or not it is enabled.
#[utoipa::path(post, path = "/api/v1/schedules/{name}/run-now", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), NamespaceQuery),
    responses((status = 201, description = "The task", body = Enqueued)))]
pub(crate) async fn run_schedule_now(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<NamespaceQuery>,
) -> Answer<(StatusCode, Json<Enqueued>)> {
    let namespace = managed(&caller, query.namespace.as_deref())?;
    let found = state.scheduler.get(&namespace, &name).await?;
    may_make(&caller, &namespace, &found.spec.task.task_type)?;
    let task = state.scheduler.run_now(&namespace, &name).await?;
    let deed = Deed::new("schedule.run_now", format!("schedule/{name}")).detail(format!("task {}", task.id));
    state.audit.write(&caller, &namespace, deed).await;
    let enqueued = Enqueued { id: task.id.to_string(), namespace: namespace.to_string(), existing: false };
    Ok((StatusCode::CREATED, Json(enqueued)))
}

/// The next fires of a schedule, with what the clocks have to do with them.
#[utoipa::path(get, path = "/api/v1/schedules/{name}/fires", tag = "schedules",
    params(("name" = String, Path, description = "The schedule's name", min_length = 1), FiresQuery),
    responses((status = 200, description = "The next fires", body = Fires)))]
pub(crate) async fn schedule_fires(
    State(state): State<AppState>,
    caller: Caller,
    Name(name): Name,
    Params(query): Params<FiresQuery>,
) -> Answer<Json<Fires>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let count = fires(query.count)?;
    let definition = state.scheduler.get(&namespace, &name).await?;
    let from = query.from.unwrap_or_else(|| state.clock.now());
    next(definition.spec.trigger, from, count)
}

/// The fires of a schedule that is not stored: to look before it is.
#[utoipa::path(post, path = "/api/v1/fires", tag = "schedules", request_body = PreviewRequest,
    responses((status = 200, description = "The next fires", body = Fires)))]
pub(crate) async fn preview_fires(
    State(state): State<AppState>,
    _caller: Caller,
    Body(request): Body<PreviewRequest>,
) -> Answer<Json<Fires>> {
    let count = fires(request.count)?;
    let from = request.from.unwrap_or_else(|| state.clock.now());
    let PreviewRequest { schedule, tz, gap, overlap, .. } = request;
    next(Trigger::Time(ScheduleSpec { schedule, tz, gap, overlap }), from, count)
}

/// What schedules did that was not simply "run it": fires that were merged, skipped or replaced, and why.
#[utoipa::path(get, path = "/api/v1/notices", tag = "schedules", params(NoticesQuery),
    responses((status = 200, description = "Notices, the oldest first", body = Notices)))]
pub(crate) async fn list_notices(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<NoticesQuery>,
) -> Answer<Json<Notices>> {
    let namespace = namespace_or_default(query.namespace.as_deref())?;
    caller.require(Permission::Read, &namespace)?;
    let limit = state.page(query.limit)?;
    let stream = StreamKey::new(namespace, NOTICES_STREAM);
    let from = ReadFrom::After(Seq(query.after.unwrap_or_default()));
    let page = state.store.read_entries(&stream, from, limit).await?;
    // What a newer version wrote may not be readable: the others are.
    let items = page.entries.iter().filter_map(|entry| {
        let notice: Notice = serde_json::from_slice(&entry.body).ok()?;
        Some(NoticeEntry { seq: entry.seq.0, notice: (&notice).into() })
    });
    Ok(Json(Notices { items: items.collect() }))
}

fn spec(wire: wire::ScheduleSpec) -> Answer<DefinitionSpec> {
    wire.try_into().map_err(|error| unkept("spec.task.payload", &error))
}

/// JSON as a value.
pub(super) fn value(json: &wire::Json, field: &'static str) -> Answer<Value> {
    json.decode().map_err(|error| unkept(field, &error))
}

/// JSON that is too deep, or has a number too large, to be kept.
fn unkept(field: &'static str, error: &serde_json::Error) -> Problem {
    let detail = format!("{field}: {error}");
    Problem::bad_request("invalid_body", detail, "send JSON that can be kept").field(field)
}

fn managed(caller: &Caller, namespace: Option<&str>) -> Answer<Namespace> {
    let namespace = namespace_or_default(namespace)?;
    caller.require(Permission::ManageSchedules, &namespace)?;
    Ok(namespace)
}

/// Whoever lets a schedule make tasks must be allowed to make them.
fn may_make(caller: &Caller, namespace: &Namespace, task_type: &str) -> Answer<()> {
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
    let deed = Deed::new(action, format!("schedule/{}", definition.name)).detail(detail);
    state.audit.write(caller, &definition.namespace, deed).await;
}

fn fires(count: Option<u32>) -> Result<usize, Invalid> {
    let count = count.unwrap_or(FIRES_DEFAULT);
    if (1..=FIRES_MAX).contains(&count) {
        return Ok(count as usize);
    }
    let problem = FieldProblem::OutOfRange { value: count.into(), min: 1, max: FIRES_MAX.into() };
    Err(Invalid::new("count", problem))
}

fn next(trigger: Trigger, from: weaver_core::time::Timestamp, count: usize) -> Answer<Json<Fires>> {
    let Trigger::Time(spec) = trigger else { return Ok(Json(Fires { fires: Vec::new() })) };
    let calendar = Calendar::new(spec).map_err(weaver_scheduler::SchedulerError::from)?;
    Ok(Json(Fires::next(&calendar, from, count)))
}
