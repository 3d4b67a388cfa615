//! Retry of a task that has ended. Terminal states are final (G4), so a *new* task like it is enqueued.

use crate::lifecycle::Refused;
use crate::task::{NewTask, TaskRecord};

/// The task to enqueue: linked to the old one by `retry_of`, without its unique keys and its expiry. Refused
/// while the old one has not ended.
pub fn retry_as_new(record: &TaskRecord) -> Result<NewTask, Refused> {
    if !record.state.is_terminal() {
        return Err(Refused::NotEnded { state: record.state });
    }
    Ok(NewTask::retry_as_new(&record.key.namespace, record.key.id, &record.spec))
}
