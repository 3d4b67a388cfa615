//! The finished attempts of a task.

use std::sync::Arc;

use weaver_core::id::Version;
use weaver_core::name::WorkerId;
use weaver_core::task::{ATTEMPTS_KEPT, AttemptOutcome, AttemptRecord, Attempts};
use weaver_core::time::Timestamp;

use crate::codec::{Reader, Undecodable, Writer};

// One byte: the outcome in the lower four bits, presence bits in the others.
const OUTCOME: u8 = 0xf;
const HAS_STARTED_AT: u8 = 1 << 4;
const HAS_ERROR: u8 = 1 << 5;
const UNKNOWN: u8 = !(OUTCOME | HAS_STARTED_AT | HAS_ERROR);

pub(super) fn encode(writer: &mut Writer, attempts: &Attempts, created_at: Timestamp) {
    writer.varint(attempts.len() as u64);
    for attempt in attempts.iter() {
        let started = if attempt.started_at.is_some() { HAS_STARTED_AT } else { 0 };
        let error = if attempt.error.is_some() { HAS_ERROR } else { 0 };
        writer.u8(number_of(attempt.outcome) | started | error);
        writer.varint(attempt.attempt.into());
        writer.text(attempt.worker.as_str());
        writer.varint(attempt.fence.0);
        // The start relative to the end: nearly always shorter than relative to the task's creation.
        writer.timestamp_from(created_at, attempt.ended_at);
        if let Some(started_at) = attempt.started_at {
            writer.timestamp_from(attempt.ended_at, started_at);
        }
        if let Some(error) = &attempt.error {
            writer.text(error);
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>, created_at: Timestamp) -> Result<Attempts, Undecodable> {
    let count = reader.count("attempts")?;
    // An attempt in memory is larger than its byte on disk: do not allocate by a corrupt count.
    let mut attempts = Vec::with_capacity(count.min(ATTEMPTS_KEPT));
    for _ in 0..count {
        attempts.push(decode_one(reader, created_at)?);
    }
    Ok(Attempts::from_oldest_first(attempts))
}

fn decode_one(reader: &mut Reader<'_>, created_at: Timestamp) -> Result<AttemptRecord, Undecodable> {
    let head = reader.u8("attempt.outcome")?;
    if head & UNKNOWN != 0 {
        return Err(Undecodable::unknown("attempt.outcome", head));
    }
    let attempt = reader.varint_u32("attempt.attempt")?;
    let worker = reader.name("attempt.worker", WorkerId::new)?;
    let fence = Version(reader.varint("attempt.fence")?);
    let ended_at = reader.timestamp_from("attempt.ended_at", created_at)?;
    let started_at = (head & HAS_STARTED_AT != 0)
        .then(|| reader.timestamp_from("attempt.started_at", ended_at))
        .transpose()?;
    let error = (head & HAS_ERROR != 0).then(|| reader.text("attempt.error").map(Arc::from)).transpose()?;
    let outcome = outcome_of(head & OUTCOME)?;
    Ok(AttemptRecord { attempt, worker, fence, started_at, ended_at, outcome, error })
}

fn number_of(outcome: AttemptOutcome) -> u8 {
    match outcome {
        AttemptOutcome::Succeeded => 0,
        AttemptOutcome::Failed => 1,
        AttemptOutcome::TimedOut => 2,
        AttemptOutcome::Lost => 3,
        AttemptOutcome::Released => 4,
        AttemptOutcome::Snoozed => 5,
        AttemptOutcome::Cancelled => 6,
        AttemptOutcome::Orphaned => 7,
    }
}

fn outcome_of(number: u8) -> Result<AttemptOutcome, Undecodable> {
    Ok(match number {
        0 => AttemptOutcome::Succeeded,
        1 => AttemptOutcome::Failed,
        2 => AttemptOutcome::TimedOut,
        3 => AttemptOutcome::Lost,
        4 => AttemptOutcome::Released,
        5 => AttemptOutcome::Snoozed,
        6 => AttemptOutcome::Cancelled,
        7 => AttemptOutcome::Orphaned,
        other => return Err(Undecodable::unknown("attempt.outcome", other)),
    })
}
