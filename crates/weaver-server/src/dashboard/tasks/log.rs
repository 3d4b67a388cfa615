//! The log of an attempt: its end on the task's page, new lines by long polling, all of it as a file.

mod ansi;

use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{LogLine, LogPage, LogsQuery, Task};

use super::super::form::path_part;
use super::super::view::View;
use crate::api::extract::{Name, Params};
use crate::api::logs::task_logs;
use crate::problem::Problem;

/// Lines on a fresh page.
const SHOWN: u32 = 300;
/// Lines per download; a worker keeps fewer per attempt.
const DOWNLOADED_MAX: usize = 200_000;

/// The log section of a task's page.
pub(super) async fn section(view: &View, task: &Task) -> Result<Markup, Problem> {
    let attempt = view.query.get("attempt").and_then(|text| text.parse().ok()).unwrap_or(task.attempt);
    let query = LogsQuery { attempt: Some(attempt), last: Some(SHOWN), ..of(view) };
    let page = read(view, &task.id, query).await?;
    let base = format!("/tasks/{}/log", path_part(&task.id));
    let number = attempt.to_string();
    let source = view.link(&base, &[("attempt", &number)]);
    let file = view.link(&format!("{base}.txt"), &[("attempt", &number)]);
    if page.lines.is_empty() && (page.ended || task.attempt == 0) {
        return Ok(html! { section #log-section { h2 { "Log" } p.soft { "No log output." } } });
    }
    let ended = page.ended && !page.more;
    Ok(html! {
        section #log-section {
            h2 { "Log of attempt " (attempt) }
            @if task.attempt > 1 {
                p.fine { "Attempts: " @for number in (1..=task.attempt).rev().take(20) {
                    a href=(view.link(&format!("/tasks/{}", path_part(&task.id)), &[("attempt", &number.to_string())])) { (number) } " "
                } }
            }
            div.row {
                label data-script hidden { input type="checkbox" id="follow" checked[!ended]; " Follow" }
                label data-script hidden { input type="checkbox" id="wrap"; " Wrap" }
                a href=(file) download { "Download" }
            }
            pre #log .log data-keep tabindex="0" aria-label=(format!("Log of attempt {attempt}"))
                data-source=(source) data-next=(page.next) data-ended=(ended) { (lines_of(&page.lines)) }
        }
    })
}

/// The lines after one, for the script; with `wait_ms` a long poll.
pub(in crate::dashboard) async fn lines(view: View, Path(id): Path<String>) -> Result<Response, Problem> {
    let number = |name: &str| view.query.get(name).and_then(|text| text.parse::<u64>().ok());
    let query = LogsQuery {
        attempt: number("attempt").and_then(|number| u32::try_from(number).ok()),
        after: Some(number("after").unwrap_or(0)),
        wait_ms: number("wait_ms"),
        ..of(&view)
    };
    let page = read(&view, &id, query).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Opened as a page of its own, it can load nothing.
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
        ),
        (HeaderName::from_static("x-log-next"), HeaderValue::from(page.next)),
        (
            HeaderName::from_static("x-log-ended"),
            HeaderValue::from_static(if page.ended && !page.more { "true" } else { "false" }),
        ),
    ];
    Ok((headers, lines_of(&page.lines).into_string()).into_response())
}

/// The log as plain text, unprocessed, up to [`DOWNLOADED_MAX`] lines.
pub(in crate::dashboard) async fn download(view: View, Path(id): Path<String>) -> Result<Response, Problem> {
    let attempt = view.query.get("attempt").and_then(|text| text.parse().ok());
    let (mut out, mut after, mut count) = (Vec::new(), 0, 0);
    loop {
        let page = read(&view, &id, LogsQuery { attempt, after: Some(after), ..of(&view) }).await?;
        count += page.lines.len();
        for line in &page.lines {
            out.extend_from_slice(&line.body.0);
            out.push(b'\n');
        }
        if !page.more || count >= DOWNLOADED_MAX {
            break;
        }
        after = page.next;
    }
    let name: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    let disposition = format!("attachment; filename=\"task-{name}.log\"");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(disposition).expect("letters and digits")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, out).into_response())
}

/// One element per line.
pub(in crate::dashboard) fn lines_of(lines: &[LogLine]) -> Markup {
    html! { @for line in lines { span title=(line.at) { (ansi::coloured(&String::from_utf8_lossy(&line.body.0))) "\n" } } }
}

async fn read(view: &View, id: &str, query: LogsQuery) -> Result<LogPage, Problem> {
    let state = State(view.state.clone());
    Ok(task_logs(state, view.caller.clone(), Name(id.to_owned()), Params(query)).await?.0)
}

fn of(view: &View) -> LogsQuery {
    LogsQuery { namespace: Some(view.namespace.to_string()), ..LogsQuery::default() }
}
