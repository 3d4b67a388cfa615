//! Running → Succeeded: the handler returned without an error.

use bytes::Bytes;

use crate::lifecycle::{HolderChange, Refused, Transition, Verb};
use crate::outcome::RESULT_MAX_BYTES;
use crate::task::{AttemptOutcome, TaskRecord, TaskState};

pub(super) fn decide(record: &TaskRecord, result: Option<Bytes>) -> Result<Transition, Refused> {
    let bytes = result.as_ref().map_or(0, Bytes::len);
    if bytes > RESULT_MAX_BYTES {
        return Err(Refused::ResultTooLarge { bytes, max_bytes: RESULT_MAX_BYTES });
    }
    let mut transition = Transition::new(record, Verb::Succeed, TaskState::Succeeded, None);
    transition.attempt_ended = Some(AttemptOutcome::Succeeded);
    transition.holder = HolderChange::Clear;
    transition.result = result;
    Ok(transition)
}
