//! The dashboard: server-rendered pages over the handlers of the API.
//!
//! ```text
//! request ─▶ security (Host, Origin) ─▶ errors (problems as pages) ─▶ gate (session, form key) ─▶ page ─▶ api ─▶ store
//! browser ◀─ html (maud, every value escaped) ◀────────────────────────────────────────────────────┘
//!    └─ script: fetches the page again when `live` reports a change, and patches what differs
//! ```
//!
//! Pages call the handlers of the API: same permissions, same audit log, nothing that the API cannot do.
//!
//! Every page works without the script. One file per page.

mod assets;
mod audit;
mod bulk;
mod chart;
mod error;
mod form;
mod gate;
mod groups;
mod layout;
mod live;
mod login;
mod merge;
mod overview;
mod quarantine;
mod queues;
mod schedules;
mod settings;
mod stats;
mod tasks;
mod text;
mod tokens;
mod view;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::api::{self, AppState, bounded};
use crate::security::{Guard, Secret, protect, protect_pages};

/// Before login a form holds only a token or link and the page to continue to.
const LOGIN_MAX_BYTES: usize = 16 * 1024;
const FORM_MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Pages {
    state: AppState,
    guard: Arc<Guard>,
    /// The form key where authentication is off; new with every start.
    local_form_key: Arc<str>,
}

/// The router of a whole server: API and pages behind their guard. Clients that accept HTML get problems as
/// pages.
pub fn site(state: AppState, guard: Arc<Guard>) -> Router {
    let api = api::routes(state.clone());
    let api = protect(api.private, api.public, Arc::clone(&guard));
    api.merge(routes(state, guard)).layer(from_fn(error::as_pages))
}

fn routes(state: AppState, guard: Arc<Guard>) -> Router {
    let pages =
        Pages { state: state.clone(), guard: Arc::clone(&guard), local_form_key: gate::random_key().into() };
    let private = Router::new()
        .route("/", get(overview::show))
        .route("/tasks", get(tasks::show))
        .route("/bulk", post(bulk::act))
        .route("/tasks/{id}", get(tasks::show_one))
        .route("/tasks/{id}/cancel", post(tasks::cancel))
        .route("/tasks/{id}/retry", post(tasks::retry))
        .route("/tasks/{id}/run-now", post(tasks::run_now))
        .route("/tasks/{id}/log", get(tasks::lines))
        .route("/tasks/{id}/log.txt", get(tasks::download))
        .route("/quarantine", get(quarantine::show))
        .route("/queues", get(queues::show).post(queues::act))
        .route("/workers", get(workers::show).post(workers::act))
        .route("/groups", get(groups::show))
        .route("/group", get(groups::show_one))
        .route("/prompts", post(groups::prompt))
        .route("/schedules", get(schedules::show))
        .route("/schedules/new", get(schedules::show_new).post(schedules::save))
        .route("/schedules/check", post(schedules::check))
        .route("/schedule", get(schedules::show_one).post(schedules::act))
        .route("/schedule/edit", get(schedules::show_edit).post(schedules::save))
        .route("/merge", get(merge::show))
        .route("/merge/queue", get(merge::show_queue).post(merge::act))
        .route("/merge/entry", get(merge::show_entry).post(merge::act_on_entry))
        .route("/settings", get(settings::show).post(settings::act))
        .route("/tokens", get(tokens::show).post(tokens::act))
        .route("/audit", get(audit::show))
        .route("/live", get(live::stream))
        .route("/logout", post(login::log_out))
        .layer(from_fn_with_state(pages.clone(), gate::enter));
    let public = Router::new()
        .route("/login", get(login::show).post(login::log_in).layer(DefaultBodyLimit::max(LOGIN_MAX_BYTES)))
        .route("/assets/{name}", get(assets::serve));
    let routes = private.merge(public).layer(DefaultBodyLimit::max(FORM_MAX_BYTES));
    protect_pages(bounded(routes, state).with_state(pages), guard)
}

/// Path and query of a one-time login link, to be appended to the server's address.
pub fn login_path(secret: &Secret) -> String {
    format!("/login?{}={}", login::LINK_FIELD, secret.expose())
}
