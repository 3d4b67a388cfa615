//! Attempt logs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use weaver_api::{Body, LogLine, LogPage, LogsQuery};
use weaver_core::error::Invalid;
use weaver_core::limits::{PAGE_MAX, check_page};
use weaver_core::ports::{Entry, JournalPage, ReadFrom, Seq, StreamKey};
use weaver_core::queue::QueueExt;
use weaver_core::task::TaskRecord;

use super::caller::{Caller, Permission};
use super::extract::{Name, Params};
use super::task::find;
use super::watch::Watch;
use super::{ApiResult, AppState};

/// How often a log is read for a client that follows it: workers flush theirs about as often.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Read an attempt's log.
///
/// To follow it, repeat the request with `after` set to the response's `next` and a `wait_ms`, until `ended`
/// is true and `more` is false.
#[utoipa::path(get, path = "/api/v1/tasks/{id}/logs", tag = "tasks",
    params(("id" = String, Path, description = "The task's id"), LogsQuery),
    responses((status = 200, description = "Lines, oldest first", body = LogPage)))]
pub(crate) async fn task_logs(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
    Params(query): Params<LogsQuery>,
) -> ApiResult<Json<LogPage>> {
    let (from, limit) = range(&query)?;
    let key = find(&state, &caller, Permission::Read, id, query.namespace.as_deref()).await?;
    let watch = Watch::new(state.clone(), caller, Permission::Read, key.namespace.clone());
    let deadline = state.clock.monotonic().saturating_add(state.wait(query.wait_ms.unwrap_or(0)));
    loop {
        // The record first: if the attempt has ended, every line is stored by the time the log is read.
        let record = state.store.get_task(&key).await?;
        let attempt = query.attempt.unwrap_or(record.attempt);
        let ended = has_ended(&record, attempt);
        let stream = StreamKey::attempt_log(&key, attempt);
        let mut page = state.store.read_entries(&stream, from, limit).await?;
        page.entries.retain(|entry| entry.seq.0 > query.after.unwrap_or(0));
        let now = state.clock.monotonic();
        if !page.entries.is_empty() || ended || now >= deadline || state.closing.is_cancelled() {
            return Ok(Json(shown(&query, attempt, page, ended)));
        }
        watch.wait_until(now.saturating_add(POLL_EVERY).min(deadline)).await?;
    }
}

fn range(query: &LogsQuery) -> Result<(ReadFrom, u32), Invalid> {
    let limit = query.limit.or(query.last).unwrap_or(PAGE_MAX);
    check_page(limit)?;
    match (query.after, query.last) {
        (_, Some(last)) => check_page(last).map(|()| (ReadFrom::Last(last), limit)),
        (after, None) => Ok((ReadFrom::After(Seq(after.unwrap_or(0))), limit)),
    }
}

/// Whether the attempt's log is complete: the attempt is not in progress.
fn has_ended(record: &TaskRecord, attempt: u32) -> bool {
    let under_way = record.lease.is_some() || record.assignment.is_some();
    record.state.is_terminal() && !record.has_hold()
        || attempt < record.attempt
        || (attempt == record.attempt && attempt > 0 && !under_way)
}

fn shown(query: &LogsQuery, attempt: u32, page: JournalPage, ended: bool) -> LogPage {
    let next = page.entries.last().map_or(query.after.unwrap_or(0), |entry| entry.seq.0);
    let line = |entry: Entry| LogLine { seq: entry.seq.0, at: entry.at, body: Body(entry.body) };
    LogPage { attempt, lines: page.entries.into_iter().map(line).collect(), next, more: page.more, ended }
}
