//! The worker that has a task, by lease or by assignment.

use weaver_core::id::{Epoch, LeaseToken};
use weaver_core::name::WorkerId;
use weaver_core::task::{Assignment, HeldLease};
use weaver_core::time::Timestamp;

use crate::codec::{Reader, Undecodable, Writer};

pub(super) fn encode(writer: &mut Writer, held: &HeldLease, created_at: Timestamp) {
    writer.text(held.worker.as_str());
    // Random bits: a varint would be longer.
    writer.raw(&held.token.0.to_le_bytes());
    writer.varint(held.epoch.0);
    writer.timestamp_from(created_at, held.started_at);
    writer.timestamp_from(held.started_at, held.expires_at);
    writer.duration(held.ttl);
}

pub(super) fn decode(reader: &mut Reader<'_>, created_at: Timestamp) -> Result<HeldLease, Undecodable> {
    let worker = reader.name("lease.worker", WorkerId::new)?;
    let token = LeaseToken(u128::from_le_bytes(reader.array("lease.token")?));
    let epoch = Epoch(reader.varint("lease.epoch")?);
    let started_at = reader.timestamp_from("lease.started_at", created_at)?;
    let expires_at = reader.timestamp_from("lease.expires_at", started_at)?;
    let ttl = reader.duration("lease.ttl")?;
    Ok(HeldLease { worker, token, epoch, started_at, expires_at, ttl })
}

pub(super) fn encode_assignment(writer: &mut Writer, assignment: &Assignment, created_at: Timestamp) {
    writer.text(assignment.worker.as_str());
    writer.varint(assignment.epoch.0);
    writer.timestamp_from(created_at, assignment.assigned_at);
}

pub(super) fn decode_assignment(
    reader: &mut Reader<'_>,
    created_at: Timestamp,
) -> Result<Assignment, Undecodable> {
    Ok(Assignment {
        worker: reader.name("assignment.worker", WorkerId::new)?,
        epoch: Epoch(reader.varint("assignment.epoch")?),
        assigned_at: reader.timestamp_from("assignment.assigned_at", created_at)?,
    })
}
