//! The OpenAPI document, generated from the handlers.

mod limits;
mod refine;

use axum::Json;
use serde_json::Value;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{OpenApi as Document, Ref, RefOr};
use utoipa::{Modify, OpenApi};
use weaver_api::{Change, MergeEvent, Problem};

use super::{
    append, audit, bulk, cancelled, change_stream, emitted_events, enqueue, finish, health, list, logs,
    merge, metrics, namespaces, quarantine, queues, schedules, settings, task, tokens, work, workers,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Weaver", description = "A job runtime: enqueue tasks, lease them to workers, schedule them, and merge changes."),
    paths(
        health::healthz, health::readyz, metrics::metrics, openapi_json,
        namespaces::list_namespaces, list::list_groups, list::list_tasks,
        enqueue::enqueue_tasks,
        task::get_task, task::cancel_task, task::run_task_now, task::retry_task, task::explain_task,
        task::task_history, task::wait_for_task, logs::task_logs, bulk::cancel_many, bulk::retry_many,
        quarantine::list_quarantined, quarantine::raw_task, quarantine::remove_task,
        queues::list_queues, queues::put_queue, queues::pause_queue, queues::resume_queue, queues::get_counts,
        workers::list_workers, workers::direct_worker,
        tokens::list_tokens, tokens::create_token, tokens::revoke_token, tokens::make_login_link,
        schedules::list_schedules, schedules::get_schedule, schedules::put_schedule, schedules::remove_schedule,
        schedules::enable_schedule, schedules::disable_schedule, schedules::run_schedule_now,
        schedules::upcoming_runs, schedules::preview_schedule, schedules::list_notices,
        emitted_events::emit_event, emitted_events::get_event, emitted_events::list_events,
        settings::list_settings, settings::put_setting, settings::reset_setting,
        merge::list_merge_queues, merge::add_merge_queue, merge::get_merge_queue, merge::set_merge_queue_priority,
        merge::pause_merge, merge::resume_merge, merge::list_merge_certificates, merge::list_merge_entries,
        merge::enqueue_merge, merge::get_merge_entry, merge::cancel_merge, merge::set_merge_priority, merge::verify_merge,
        merge::stream_merge_events, merge::accept_merge, merge::set_merge_on_foreign, merge::get_merge_chain,
        merge::verify_merge_chain, merge::remove_merge_queue,
        audit::list_audit, change_stream::stream_events,
        work::lease, work::wait_for_work, work::wait_for_assigned, work::start_assigned, cancelled::wait_for_cancelled, work::renew, work::confirm_stopped, work::heartbeat,
        work::deregister, append::append,
        finish::finish,
    ),
    components(schemas(Problem, Change, MergeEvent)),
    modifiers(&Problems)
)]
struct Api;

/// Adds the default response of every operation: a problem document.
struct Problems;

impl Modify for Problems {
    fn modify(&self, document: &mut Document) {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let problem = ResponseBuilder::new()
            .description("The error, with a hint")
            .content("application/problem+json", content)
            .build();
        for item in document.paths.paths.values_mut() {
            let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
            for operation in methods.into_iter().flatten() {
                let responses = &mut operation.responses.responses;
                responses.insert("default".to_owned(), RefOr::T(problem.clone()));
            }
        }
    }
}

/// The OpenAPI 3.1 document, with the limits and constraints that derived schemas lack.
pub fn document() -> Value {
    // Plain data: serializing it cannot fail.
    let mut document = serde_json::to_value(Api::openapi()).unwrap_or_default();
    refine::refine(&mut document);
    document
}

/// Read this OpenAPI document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "server",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
pub(crate) async fn openapi_json() -> Json<Value> {
    Json(document())
}
