//! Items that others wrote or changed, who know only seed 000. What such an item says is told by making the
//! moves its `status` stands for, by the rules of the lifecycle: a record is never put together by hand.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lifecycle::{self, Command, Grant};
use weaver_core::name::{ExternalId, QueueName, SessionId, TaskGroupId, TaskType, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::ALIVE_WITHIN;
use weaver_core::projection::queue_item::Status;
use weaver_core::task::{
    ContentType, Origin, Start, TaskEnvelope, TaskRecord, TaskSpec, TaskState, TypeDefaults, ValidTask,
};
use weaver_core::time::Timestamp;

use crate::codec::record::{self, PROMPT};
use crate::codec::texts::Texts;
use crate::codec::value::Attributes;
use crate::db::Item;

/// The token of a lease that nobody of ours holds: a runner that knows only seed 000 has the task.
pub(crate) const NOBODYS_TOKEN: LeaseToken = LeaseToken(0);

/// The form of a prompt's payload: the text itself, as Weaver's own prompts have it.
const TEXT: &str = "text/plain; charset=utf-8";

/// The record an item says, whoever wrote it last.
pub(crate) fn read(item: &Item, texts: &Texts) -> Result<TaskRecord> {
    let mut found = if is_adopted(item) { record::decode(item, texts)? } else { admit(item)? };
    if let Some(status) = status_of(item)
        && status != Status::of(&found)
    {
        follow(&mut found, status, item);
    }
    Ok(found)
}

/// Whether we have written the item before.
pub(crate) fn is_adopted(item: &Item) -> bool {
    item.contains_key("version")
}

/// Whether somebody else has moved an item of ours.
pub(crate) fn is_moved(item: &Item) -> bool {
    let Some(state) = record::state_of(item) else { return false };
    let started = item.number("executions").unwrap_or_default() > 0;
    status_of(item).is_some_and(|status| status != Status::project(state, started))
}

pub(crate) fn status_of(item: &Item) -> Option<Status> {
    item.text("status")?.parse().ok()
}

/// A new task of another client: a prompt, with the defaults of prompts. But for the serial key: a client
/// that knows only seed 000 starts tasks without looking at a gate, and a key that its task never took could
/// never be given up.
fn admit(item: &Item) -> Result<TaskRecord> {
    let TaskKey { namespace, id } = record::key_of(item)?;
    let name = item.text("task_id").unwrap_or_default();
    let text = |name: &str| item.text(name).filter(|text| !text.is_empty());
    let origin = Origin {
        // A text that is no name of ours is left out: the item keeps it.
        task_group_id: text("task_group_id").and_then(|text| TaskGroupId::try_from(text).ok()),
        session_id: text("session_id").and_then(|text| SessionId::try_from(text).ok()),
        external_id: if id.is_foreign() { Some(ExternalId::new(name.to_owned())?) } else { None },
        ..Origin::default()
    };
    let defaults = TypeDefaults::of(PROMPT);
    let spec = TaskSpec {
        queue: QueueName::default(),
        envelope: TaskEnvelope {
            task_type: TaskType::new(PROMPT)?,
            payload: Bytes::copy_from_slice(item.text("prompt").unwrap_or_default().as_bytes()),
            content_type: ContentType::other(TEXT),
        },
        priority: defaults.priority,
        max_attempts: defaults.max_attempts,
        max_losses: defaults.max_losses,
        retry: defaults.retry,
        timeout: None,
        expires_at: None,
        serial_key: None,
        idempotency_key: None,
        origin: origin.boxed(),
    };
    let task = ValidTask { namespace, spec: spec.into(), start: Start::Now };
    Ok(lifecycle::admit(task, id, written_at(item, "created_at"))?)
}

/// An instant as others write it; the beginning of time if it is none.
fn written_at(item: &Item, name: &str) -> Timestamp {
    item.text(name).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Makes the moves that lead to a `status`.
fn follow(found: &mut TaskRecord, status: Status, item: &Item) {
    let at = written_at(item, "updated_at").max(found.updated_at).max(found.ready_at);
    match status {
        Status::Queued => {}
        Status::Running => start(found, item, at),
        Status::Cancelled => apply(found, Command::Cancel, at),
        Status::Complete => end(found, item, Outcome::DONE, at),
        Status::Error => {
            let message = item.text("error_message").unwrap_or("failed");
            end(found, item, Outcome::fatal(message), at);
        }
    }
}

fn start(found: &mut TaskRecord, item: &Item, at: Timestamp) {
    let worker = item.text("claimed_by").and_then(|text| WorkerId::try_from(text).ok());
    let Some(worker) = worker.or_else(|| WorkerId::new("unknown").ok()) else { return };
    let ttl: Duration = ALIVE_WITHIN;
    apply(found, Command::Lease(Grant { worker, token: NOBODYS_TOKEN, ttl }), at);
}

fn end(found: &mut TaskRecord, item: &Item, outcome: Outcome, at: Timestamp) {
    if found.state != TaskState::Running {
        start(found, item, at);
    }
    if let Some(lease) = found.current_lease() {
        apply(found, Command::Finish { lease, outcome }, at);
    }
}

/// What the rules refuse, others have written all the same; the record then stays as it was.
fn apply(found: &mut TaskRecord, command: Command, at: Timestamp) {
    if let Ok(transition) = lifecycle::decide(found, command, at) {
        transition.apply(found, at);
    }
}
