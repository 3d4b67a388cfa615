//! Removing a merge queue: a confirmation that names what is cancelled, then the removal.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use weaver_api::{MergeQueue, RemoveMergeQuery};
use weaver_core::name::Namespace;

use super::super::form::Fields;
use super::super::gate::redirect;
use super::super::layout::{self, Head};
use super::super::text::{number, plain};
use super::super::view::View;
use super::queue_link;
use crate::api::extract::{Name, Params};
use crate::api::{Permission, merge as api};
use crate::problem::Problem;

pub(super) async fn act(view: &View, id: &str, fields: &Fields) -> Result<Response, Problem> {
    let (state, caller, name) = (State(view.state.clone()), view.caller.clone(), Name(id.to_owned()));
    if fields.get("confirmed").is_none() {
        let queue = api::get_merge_queue(state, caller, name).await?.0;
        view.caller.require(Permission::ManageMerge, &Namespace::new(queue.namespace.clone())?)?;
        let title = format!("Remove merge queue {id}");
        let head = Head { title: &title, section: "Merge queues", live: "" };
        return Ok(layout::page(view, &head, &confirmation(view, &queue)).into_response());
    }
    // An entry that was enqueued after the confirmation was shown refuses a removal of an empty queue.
    let query = RemoveMergeQuery { cancel_entries: Some(fields.get("cancel_entries").is_some()) };
    drop(api::remove_merge_queue(state, caller, name, Params(query)).await?);
    Ok(redirect(&queue_link(view, id)))
}

fn confirmation(view: &View, queue: &MergeQueue) -> Markup {
    let here = queue_link(view, &queue.id);
    let entries = match queue.waiting {
        1 => "1 entry".to_owned(),
        count => format!("{} entries", number(count)),
    };
    html! {
        h1 { "Remove merge queue " (plain(&queue.id)) "?" }
        @if queue.waiting == 0 { p { "The queue is empty." } }
        @else { p.alert { (entries) " in the queue will be cancelled, and their running checks stopped." } }
        p { "The repository is not changed. The history and the signed chain are kept, and continue if the queue is added again." }
        form.row method="post" action=(here) {
            (layout::key(view))
            input type="hidden" name="action" value="remove";
            input type="hidden" name="confirmed" value="yes";
            @if queue.waiting > 0 { input type="hidden" name="cancel_entries" value="yes"; }
            button.danger { "Remove queue" @if queue.waiting > 0 { " and cancel " (entries) } }
            a.button href=(here) { "Back" }
        }
    }
}
