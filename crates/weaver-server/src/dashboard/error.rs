//! Problem documents as pages.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use maud::html;
use weaver_api as wire;

use super::form::encoded;
use super::gate::redirect;
use super::{layout, text};

/// The largest problem document that is read.
const PROBLEM_MAX_BYTES: usize = 64 * 1024;

/// The outermost layer: a client that accepts HTML gets a problem as a page.
pub(super) async fn as_pages(request: Request, next: Next) -> Response {
    let wants_page = wants_html(request.headers());
    let target = request.uri().path_and_query().map_or("/".to_owned(), ToString::to_string);
    let response = next.run(request).await;
    let is_problem =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    if !wants_page || !is_problem {
        return response;
    }
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED && !target.starts_with("/api") {
        return redirect(&format!("/login?{}", encoded([("next", target.as_str())])));
    }
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, PROBLEM_MAX_BYTES).await.unwrap_or_default();
    let Ok(problem) = serde_json::from_slice::<wire::Problem>(&bytes) else {
        return Response::from_parts(parts, bytes.into());
    };
    let mut page = layout::with_status(status, shown(&problem));
    // Headers of the inner layers stay, except those about the replaced body.
    for (name, value) in &parts.headers {
        if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
            page.headers_mut().insert(name.clone(), value.clone());
        }
    }
    page
}

fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

fn shown(problem: &wire::Problem) -> maud::Markup {
    layout::bare(
        &problem.title,
        &html! {
            h1 { (problem.title) }
            p { (text::plain(&problem.detail)) "." }
            p { "Hint: " (text::plain(&problem.hint)) "." }
            p { a href="/" { "Overview" } }
            p.fine { "Error code " code { (problem.code) } ", status " (problem.status) }
        },
    )
}
