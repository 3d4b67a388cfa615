//! The HTTP API: wire types in, port calls, wire types out. `weaver_api` has the table of routes.
//!
//! ```text
//! limits (body, time) ─▶ route ─▶ extract (Body, Params, Name, Caller) ─▶ handler ─▶ store ─▶ audit
//!                                      └────────── Problem ◀──────────────────┘
//! ```

mod append;
pub(crate) mod audit;
pub(crate) mod bodies;
pub(crate) mod bulk;
mod caller;
mod cancelled;
pub(crate) mod change_stream;
mod clock_watch;
mod emitted_events;
pub(crate) mod enqueue;
pub(crate) mod extract;
mod finish;
mod health;
pub(crate) mod last_event_id;
mod leases;
pub(crate) mod list;
pub(crate) mod logs;
pub mod merge;
mod metrics;
pub(crate) mod namespaces;
mod openapi;
pub(crate) mod quarantine;
mod queue_quota;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod settings;
pub(crate) mod sse;
mod state;
pub(crate) mod task;
pub(crate) mod tokens;
pub(crate) mod watch;
mod work;
pub(crate) mod workers;

use std::any::Any;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use tower_http::catch_panic::CatchPanicLayer;

pub(crate) use caller::{Caller, Permission};
pub(crate) use metrics::observe;
pub use metrics::{Metric, StoreMetrics};
pub use openapi::document;
pub use state::{ApiLimits, AppState, Shared};

use crate::problem::Problem;
use crate::security::{Identity, count_connection};

/// A handler's result; the problem is sent as `application/problem+json`.
pub(crate) type ApiResult<T> = Result<T, Problem>;

/// Every route without authentication: for tests, and for programs that do it themselves.
pub fn router(state: AppState) -> Router {
    let Routes { private, public } = routes(state);
    private.merge(public).layer(from_fn(as_one_caller))
}

/// Without tokens, all connections count as those of one caller.
async fn as_one_caller(request: Request, next: Next) -> Response {
    match count_connection(&request, &Identity::local()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The routes, split by whether they need a bearer token.
#[derive(Debug)]
pub struct Routes {
    /// Routes that need an [`Identity`]; also answers unknown paths with 404.
    pub private: Router,
    /// Routes without authentication: health, and the OpenAPI document.
    pub public: Router,
}

/// Every route; put [`protect`](crate::security::protect) around the two parts.
pub fn routes(state: AppState) -> Routes {
    let v1 = Router::new()
        .route("/namespaces", get(namespaces::list_namespaces))
        .route("/tasks", get(list::list_tasks).post(enqueue::enqueue_tasks))
        .route("/tasks/{id}", get(task::get_task).delete(quarantine::remove_task))
        .route("/tasks/{id}/raw", get(quarantine::raw_task))
        .route("/tasks/{id}/cancel", post(task::cancel_task))
        .route("/tasks/{id}/run-now", post(task::run_task_now))
        .route("/tasks/{id}/retry", post(task::retry_task))
        .route("/tasks/{id}/explain", get(task::explain_task))
        .route("/tasks/{id}/history", get(task::task_history))
        .route("/tasks/{id}/logs", get(logs::task_logs))
        .route("/tasks/{id}/wait", get(task::wait_for_task))
        .route("/quarantine", get(quarantine::list_quarantined))
        .route("/bulk/cancel", post(bulk::cancel_many))
        .route("/bulk/retry", post(bulk::retry_many))
        .route("/groups", get(list::list_groups))
        .route("/queues", get(queues::list_queues))
        .route("/queues/{queue}", put(queues::put_queue))
        .route("/queues/{queue}/pause", post(queues::pause_queue))
        .route("/queues/{queue}/resume", post(queues::resume_queue))
        .route("/counts", get(queues::get_counts))
        .route("/workers", get(workers::list_workers))
        .route("/workers/{id}/directive", post(workers::direct_worker))
        .route("/tokens", get(tokens::list_tokens).post(tokens::create_token))
        .route("/tokens/{id}", delete(tokens::revoke_token))
        .route("/login-links", post(tokens::make_login_link))
        .route("/audit", get(audit::list_audit))
        .route("/events", get(change_stream::stream_events).post(emitted_events::emit_event))
        .route("/events/{id}", get(emitted_events::get_event))
        .route("/event-log", get(emitted_events::list_events))
        .route("/settings", get(settings::list_settings))
        .route("/settings/{key}", put(settings::put_setting).delete(settings::reset_setting))
        .merge(schedule_routes())
        .nest("/merge/queues", merge_routes())
        .nest("/work", work_routes());
    let private = Router::new()
        .nest("/api/v1", v1)
        .route("/metrics", get(metrics::metrics))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(no_such_route);
    let public = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/api/openapi.json", get(openapi::openapi_json))
        .method_not_allowed_fallback(method_not_allowed);
    let private = private.layer(from_fn_with_state(state.clone(), audit::audit_denials));
    Routes { private: finished(private, state.clone()), public: finished(public, state) }
}

fn schedule_routes() -> Router<AppState> {
    let one = get(schedules::get_schedule).put(schedules::put_schedule).delete(schedules::remove_schedule);
    Router::new()
        .route("/schedules", get(schedules::list_schedules))
        .route("/schedules/{name}", one)
        .route("/schedules/{name}/enable", post(schedules::enable_schedule))
        .route("/schedules/{name}/disable", post(schedules::disable_schedule))
        .route("/schedules/{name}/run-now", post(schedules::run_schedule_now))
        .route("/schedules/{name}/upcoming", get(schedules::upcoming_runs))
        .route("/schedule-preview", post(schedules::preview_schedule))
        .route("/notices", get(schedules::list_notices))
}

fn merge_routes() -> Router<AppState> {
    Router::new()
        .route("/", get(merge::list_merge_queues).post(merge::add_merge_queue))
        .route("/{queue}", get(merge::get_merge_queue).delete(merge::remove_merge_queue))
        .route("/{queue}/priority", put(merge::set_merge_queue_priority))
        .route("/{queue}/pause", post(merge::pause_merge))
        .route("/{queue}/resume", post(merge::resume_merge))
        .route("/{queue}/accept", post(merge::accept_merge))
        .route("/{queue}/on_foreign", put(merge::set_merge_on_foreign))
        .route("/{queue}/chain", get(merge::get_merge_chain))
        .route("/{queue}/verify", get(merge::verify_merge_chain))
        .route("/{queue}/certificates", get(merge::list_merge_certificates))
        .route("/{queue}/events", get(merge::stream_merge_events))
        .route("/{queue}/entries", get(merge::list_merge_entries).post(merge::enqueue_merge))
        .route("/{queue}/entries/{entry}", get(merge::get_merge_entry))
        .route("/{queue}/entries/{entry}/cancel", post(merge::cancel_merge))
        .route("/{queue}/entries/{entry}/priority", put(merge::set_merge_priority))
        .route("/{queue}/entries/{entry}/verify", get(merge::verify_merge))
}

fn work_routes() -> Router<AppState> {
    Router::new()
        .route("/lease", post(work::lease))
        .route("/wait", post(work::wait_for_work))
        .route("/wait-assigned", post(work::wait_for_assigned))
        .route("/start-assigned", post(work::start_assigned))
        .route("/cancelled", post(cancelled::wait_for_cancelled))
        .route("/renew", post(work::renew))
        .route("/finish", post(finish::finish))
        .route("/confirm-stopped", post(work::confirm_stopped))
        .route("/heartbeat", post(work::heartbeat))
        .route("/deregister", post(work::deregister))
        .route("/append", post(append::append))
}

fn finished(routes: Router<AppState>, state: AppState) -> Router {
    let routes = routes.layer(DefaultBodyLimit::max(state.limits.body_max_bytes));
    bounded(routes, state.clone()).with_state(state)
}

/// Catches panics and limits the duration of every request.
pub(crate) fn bounded<S: Clone + Send + Sync + 'static>(routes: Router<S>, state: AppState) -> Router<S> {
    routes.layer(CatchPanicLayer::custom(panicked)).layer(from_fn_with_state(state, with_timeout))
}

/// Ends a request after `request_timeout`, whatever it waits for (its own body included).
async fn with_timeout(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let deadline = state.clock.monotonic().saturating_add(state.limits.request_timeout);
    tokio::select! {
        response = next.run(request) => response,
        () = state.clock.sleep_until(deadline) => Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!("the request took longer than {:?}", state.limits.request_timeout),
            "send the body faster, or use a smaller batch or page",
        )
        .into_response(),
    }
}

/// A panic fails one request, not the server.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal_error",
        "the server panicked while handling the request",
        "the request may have been applied: check before retrying; the server's log has the panic",
    )
    .into_response()
}

async fn no_such_route(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_route",
        format!("no route `{}`", uri.path()),
        "see /api/openapi.json for the routes",
    )
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("`{}` does not support {method}", uri.path()),
        "see the response header `allow` for its methods",
    )
}
