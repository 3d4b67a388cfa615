//! Which merge queues a caller may see and change: permissions are checked in a queue's own namespace.

use weaver_core::name::Namespace;
use weaver_merge::domain::{MergeQueue, QueueId};
use weaver_merge::engine::EngineError;

use crate::api::caller::{Caller, Permission};
use crate::api::{ApiResult, AppState};
use crate::problem::Problem;

/// A queue, and that its caller has the permission that was required.
pub(super) struct Permitted {
    pub(super) id: QueueId,
    pub(super) queue: MergeQueue,
    pub(super) namespace: Namespace,
}

/// The queue that a path names. One of a namespace outside the caller's scope gives the same response as one
/// that does not exist.
pub(super) async fn permitted(
    state: &AppState,
    caller: &Caller,
    permission: Permission,
    queue: String,
) -> ApiResult<Permitted> {
    let id = named(queue)?;
    let queue = match state.merge.get(&id).await {
        Ok(stored) => stored.queue,
        // Its own namespace cannot be read.
        Err(error) if error.is_unreadable() && !sees(caller, state.merge.namespace()) => {
            return Err(EngineError::NoQueue(id).into());
        }
        Err(error) => return Err(error.into()),
    };
    let namespace = state.merge.namespace_of(&queue).clone();
    if !sees(caller, &namespace) {
        return Err(EngineError::NoQueue(id).into());
    }
    caller.require(permission, &namespace)?;
    Ok(Permitted { id, queue, namespace })
}

/// The queues that the caller may see.
pub(super) async fn visible(state: &AppState, caller: &Caller) -> ApiResult<Vec<MergeQueue>> {
    let mut queues = state.merge.queues().await?;
    queues.retain(|queue| sees(caller, state.merge.namespace_of(queue)));
    Ok(queues)
}

fn sees(caller: &Caller, namespace: &Namespace) -> bool {
    caller.require(Permission::Read, namespace).is_ok()
}

/// The queue that a path names. A name that cannot be a document key is an unknown queue.
pub(super) fn named(queue: String) -> Result<QueueId, Problem> {
    let is_name = !queue.is_empty() && queue.len() <= 255 && !queue.chars().any(char::is_control);
    let id = QueueId(queue);
    if is_name { Ok(id) } else { Err(EngineError::NoQueue(id).into()) }
}
