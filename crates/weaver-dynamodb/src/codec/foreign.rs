//! Decodes items that were written or changed by other clients, which know only seed 000.
//!
//! The record is derived by applying the transitions that its `status` stands for, by the rules of the
//! lifecycle; it is never assembled by hand.

use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lifecycle::{self, Command, Grant};
use weaver_core::name::{ExternalId, QueueName, SerialKey, SessionId, TaskGroupId, TaskType, WorkerId};
use weaver_core::outcome::Outcome;
use weaver_core::ports::ALIVE_WITHIN;
use weaver_core::projection::queue_item::Status;
use weaver_core::task::{
    ContentType, Origin, Start, TaskEnvelope, TaskRecord, TaskSpec, TaskState, TypeDefaults, ValidTask,
};
use weaver_core::time::Timestamp;

use crate::codec::damaged;
use crate::codec::record::{self, PROMPT};
use crate::codec::texts::Texts;
use crate::codec::value::Attributes;
use crate::db::Item;

/// The token of a lease held by a runner that knows only seed 000.
pub(crate) const FOREIGN_TOKEN: LeaseToken = LeaseToken(0);

/// Content type of a prompt's payload: plain text, as in Weaver's own prompts.
const TEXT: &str = "text/plain; charset=utf-8";

/// The record of an item, whether Weaver or another client wrote it last.
pub(crate) fn read(item: &Item, texts: &Texts) -> Result<TaskRecord> {
    let mut found = if is_adopted(item) { record::decode(item, texts)? } else { admit(item)? };
    if let Some(status) = status_of(item)
        && status != Status::of(&found)
    {
        follow(&mut found, status, item);
    }
    Ok(found)
}

/// Whether Weaver has written the item before.
pub(crate) fn is_adopted(item: &Item) -> bool {
    item.contains_key("version")
}

/// Whether another client has changed the status of an adopted item.
pub(crate) fn is_moved(item: &Item) -> bool {
    let Some(state) = record::state_of(item) else { return false };
    let started = item.number("executions").unwrap_or_default() > 0;
    status_of(item).is_some_and(|status| status != Status::project(state, started))
}

pub(crate) fn status_of(item: &Item) -> Option<Status> {
    item.text("status")?.parse().ok()
}

/// A new task of another client: a prompt, with the defaults of prompts. So the prompts of a session start
/// one after another, in the order in which they were created.
fn admit(item: &Item) -> Result<TaskRecord> {
    let TaskKey { namespace, id, .. } = record::key_of(item)?;
    let name = item.text("task_id").unwrap_or_default();
    if item.contains_key("prompt") && item.text("prompt").is_none() {
        return Err(damaged("its attribute `prompt` is not a string"));
    }
    let text = |name: &str| item.text(name).filter(|text| !text.is_empty());
    let origin = Origin {
        // Text that is not a valid name is ignored here; the item keeps it.
        task_group_id: text("task_group_id").and_then(|text| TaskGroupId::try_from(text).ok()),
        session_id: text("session_id").and_then(|text| SessionId::try_from(text).ok()),
        // A decimal one, too: it says that the task was not created by Weaver.
        external_id: Some(ExternalId::new(name.to_owned())?),
        ..Origin::default()
    };
    let defaults = TypeDefaults::of(PROMPT);
    let session = origin.session_id.as_ref().filter(|_| defaults.is_serial_by_session);
    let serial_key = session.and_then(|session| SerialKey::try_from(session.as_str()).ok());
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
        serial_key,
        idempotency_key: None,
        origin: origin.boxed(),
    };
    let task = ValidTask { namespace, spec: spec.into(), start: Start::Now };
    Ok(lifecycle::admit(task, id, written_at(item, "created_at"))?)
}

/// An instant as other clients write it; the epoch if it is invalid. Without a zone it is UTC, as Python's
/// `utcnow().isoformat()` means it.
pub(crate) fn written_at(item: &Item, name: &str) -> Timestamp {
    let instant = |text: &str| text.parse().or_else(|_| format!("{text}Z").parse()).ok();
    item.text(name).and_then(instant).unwrap_or_default()
}

/// Applies the transitions that lead to a `status`.
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
    apply(found, Command::Lease(Grant { worker, token: FOREIGN_TOKEN, ttl }), at);
}

fn end(found: &mut TaskRecord, item: &Item, outcome: Outcome, at: Timestamp) {
    if found.state != TaskState::Running {
        start(found, item, at);
    }
    if let Some(lease) = found.current_lease() {
        apply(found, Command::Finish { lease, outcome }, at);
    }
}

/// If the lifecycle does not allow what another client wrote, the record stays unchanged.
fn apply(found: &mut TaskRecord, command: Command, at: Timestamp) {
    if let Ok(transition) = lifecycle::decide(found, command, at) {
        transition.apply(found, at);
    }
}
