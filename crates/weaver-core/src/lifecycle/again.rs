//! "Run it again": a terminal task is final (G4), so it is a *new* task like it that enters.

use crate::lifecycle::Refused;
use crate::task::{NewTask, TaskRecord};

/// The task to enqueue: linked to the old one by `retry_of`, without its unique keys and without its expiry.
pub fn again(record: &TaskRecord) -> Result<NewTask, Refused> {
    if !record.state.is_terminal() {
        return Err(Refused::NotEnded { state: record.state });
    }
    Ok(NewTask::again(&record.key.namespace, record.key.id, &record.spec))
}
