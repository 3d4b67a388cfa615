//! Decoding a task from its row.

use std::sync::Arc;

use bytes::Bytes;
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};
use weaver_core::error::Error;
use weaver_core::id::{Epoch, TaskId, TaskKey, Version};
use weaver_core::name::{
    IdempotencyKey, JobDefinitionId, Namespace, QueueName, SerialKey, SessionId, SharedText, TaskGroupId,
    WorkerId,
};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};
use weaver_core::retry::RetryPolicy;
use weaver_core::task::{
    Assignment, AttemptRecord, Attempts, Cause, ContentType, Continuation, Dispatch, HeldLease, Labels,
    Origin, Priority, Progress, ReadyBy, TaskEnvelope, TaskRecord, TaskSpec, TraceContext,
};
use weaver_core::time::Timestamp;

use crate::error::{Result, StoreFault};
use crate::names::{Interner, cause_of, outcome_of, state_of};
use crate::types::{At, Token, span};

/// Reads columns in the order of `run_columns!`.
struct Columns<'a> {
    row: &'a PgRow,
    next: usize,
}

impl<'a> Columns<'a> {
    fn take<T: Decode<'a, Postgres> + Type<Postgres>>(&mut self) -> Result<T, sqlx::Error> {
        let at = self.next;
        self.next += 1;
        self.row.try_get(at)
    }

    fn at(&mut self) -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(self.take::<Option<At>>()?.map(|at| at.0))
    }

    fn instant(&mut self) -> Result<Timestamp, sqlx::Error> {
        Ok(self.take::<At>()?.0)
    }

    fn count(&mut self) -> Result<u32> {
        u32::try_from(self.take::<i32>()?).map_err(StoreFault::unreadable)
    }

    fn number(&mut self) -> Result<u64> {
        u64::try_from(self.take::<i64>()?).map_err(StoreFault::unreadable)
    }

    fn name<T>(
        &mut self,
        make: impl Fn(SharedText) -> Result<T, weaver_core::error::Invalid>,
    ) -> Result<Option<T>> {
        let text: Option<&str> = self.take()?;
        text.map(|text| make(Arc::<str>::from(text).into()).map_err(StoreFault::unreadable)).transpose()
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text: Option<&str> = self.take()?;
        text.map(|text| serde_json::from_str(text).map_err(StoreFault::unreadable)).transpose()
    }
}

/// Values of the first columns that the attempts are built from.
struct Head {
    cause: Option<Cause>,
    version: Version,
    attempt: u32,
    finished_at: Option<Timestamp>,
    lease: Option<HeldLease>,
    lease_started_at: Option<Timestamp>,
    worker: Option<WorkerId>,
}

/// The format this Weaver writes runs in, and the newest it reads.
pub(crate) const RUN_FORMAT: i16 = 1;

/// Reads a run from a row that starts with `run_columns!`. An error concerns this row alone.
pub(crate) fn record(row: &PgRow, interner: &mut Interner) -> Result<TaskRecord, Unreadable> {
    match row.try_get::<i16, _>(0) {
        Ok(1..=RUN_FORMAT) => read(row, interner).map_err(undecodable),
        Ok(found) => {
            let (found, known) = (found.unsigned_abs().into(), RUN_FORMAT.unsigned_abs().into());
            Err(Unreadable::UnknownFormat { found, known })
        }
        Err(error) => Err(undecodable(error.into())),
    }
}

/// The reason why a row cannot be decoded.
pub(crate) fn undecodable(fault: StoreFault) -> Unreadable {
    let reason = match fault {
        StoreFault::Refused(Error::Damaged { what, .. }) => what,
        StoreFault::Refused(error) => error.to_string(),
        StoreFault::Database(error) => error.to_string(),
    };
    Unreadable::Undecodable { reason }
}

/// The id and the finding for an unreadable run; `None` if id or namespace are unreadable too.
pub(crate) fn finding(row: &PgRow, why: Unreadable, found_at: Timestamp) -> Option<(i64, Quarantined)> {
    let id: i64 = row.try_get(1).ok()?;
    let text = |at: usize| row.try_get::<Option<&str>, _>(at).ok().flatten();
    let namespace = Namespace::new(text(2)?.to_owned()).ok()?;
    let state = text(5);
    let is_leased = row.try_get::<Option<Token>, _>(LEASE_TOKEN).ok().flatten().is_some();
    // A finished run holds neither slot nor serial key.
    let is_live = row.try_get::<Option<At>, _>(FINISHED_AT).ok().flatten().is_none() || is_leased;
    let finding = Quarantined {
        queue: text(3).and_then(|name| QueueName::new(name.to_owned()).ok()),
        state: state.map(str::to_owned),
        serial_key: text(SERIAL_KEY)
            .filter(|_| is_live)
            .and_then(|name| SerialKey::new(name.to_owned()).ok()),
        holds_slot: is_leased || matches!(state, Some("ASSIGNED" | "ORPHANED")),
        ..Quarantined::new(RecordKind::Task, namespace, id.to_string(), why, found_at)
    };
    Some((id, finding))
}

/// Indexes of columns in `run_columns!`.
const FINISHED_AT: usize = 21;
const LEASE_TOKEN: usize = 26;
const SERIAL_KEY: usize = 35;

fn read(row: &PgRow, interner: &mut Interner) -> Result<TaskRecord> {
    // Column 0, the format, has been checked.
    let mut columns = Columns { row, next: 1 };
    let id = TaskId(columns.number()?);
    let namespace = interner.namespace(columns.take()?)?;
    let (queue, task_type) = (interner.queue(columns.take()?)?, interner.task_type(columns.take()?)?);
    let (word, scheduled): (&str, bool) = (columns.take()?, columns.take()?);
    let state = state_of(word, scheduled)?;
    let cause = columns.take::<Option<&str>>()?.map(cause_of).transpose()?;
    let (version, renewals) = (Version(columns.number()?), columns.number()?);
    let (attempt, executions) = (columns.count()?, columns.count()?);
    let (failures, losses, priority) = (columns.count()?, columns.count()?, priority(&mut columns)?);
    let (max_attempts, max_losses) = (columns.count()?, columns.count()?);
    let (created_at, updated_at, ready_at) = (columns.instant()?, columns.instant()?, columns.instant()?);
    let (first_started_at, finished_at) = (columns.at()?, columns.at()?);
    let (scheduled_for, expires_at) = (columns.at()?, columns.at()?);
    let timeout = columns.take::<Option<i64>>()?.map(span);
    let (lease, lease_started_at, worker, assignment) = holder(&mut columns, interner)?;
    let confirming = |check_deadline_at| Continuation::Confirming { check_deadline_at };
    let continuation = columns.at()?.map_or(Continuation::None, confirming);
    let head = Head { cause, version, attempt, finished_at, lease, lease_started_at, worker };
    let outcome: Option<&str> = columns.take()?;
    let keys = (columns.name(SerialKey::new)?, columns.name(IdempotencyKey::new)?);
    let origin = origin(&mut columns, scheduled_for)?;
    let (retry, origin, content_type) = rare(&mut columns, origin)?;
    let progress = progress(&mut columns)?;
    let last_error = columns.take::<Option<&str>>()?.map(Arc::<str>::from);
    let result = columns.take::<Option<&[u8]>>()?.map(Bytes::copy_from_slice);
    let payload = Bytes::copy_from_slice(columns.take()?);
    let dispatch = columns.take::<Option<i16>>()?.map(dispatch_of).transpose()?;
    let attempts = attempts(&mut columns, interner, &head, outcome, last_error.as_ref())?;
    let spec = TaskSpec {
        queue,
        envelope: TaskEnvelope { task_type, payload, content_type },
        priority,
        max_attempts,
        max_losses,
        retry,
        timeout,
        expires_at,
        serial_key: keys.0,
        idempotency_key: keys.1,
        origin: Origin { dispatch, ..origin }.boxed(),
    };
    Ok(TaskRecord {
        key: TaskKey::new(namespace, id),
        spec: Arc::new(spec),
        state,
        cause: head.cause,
        version: head.version,
        renewals,
        executions,
        failures,
        losses,
        attempt: head.attempt,
        ready_at,
        ready_by: ReadyBy::Span,
        created_at,
        updated_at,
        first_started_at,
        finished_at: head.finished_at,
        last_error,
        lease: head.lease,
        assignment,
        continuation,
        result,
        progress,
        attempts,
    })
}

/// The retry policy of a row whose `retry` is NULL: most rows, which saves some eighty bytes each. It belongs
/// to the schema, not to core: if core's default changes, existing rows keep their meaning and the new
/// default is stored explicitly.
pub(crate) const RETRY_WHEN_NULL: RetryPolicy = RetryPolicy::Exponential {
    base: std::time::Duration::from_secs(15),
    factor: 16,
    cap: std::time::Duration::from_secs(8 * 3600),
    jitter: true,
};

/// The dispatch of a stored number.
pub(crate) fn dispatch_of(number: i16) -> Result<Dispatch> {
    let dispatch = u8::try_from(number).ok().and_then(Dispatch::of_number);
    dispatch.ok_or_else(|| StoreFault::unreadable(format!("dispatch {number}")))
}

fn priority(columns: &mut Columns<'_>) -> Result<Priority> {
    let number: i16 = columns.take()?;
    let priority = u8::try_from(number).ok().and_then(Priority::new);
    priority.ok_or_else(|| StoreFault::unreadable(format!("priority {number}")))
}

/// Fields that few tasks set.
fn rare(columns: &mut Columns<'_>, origin: Origin) -> Result<(RetryPolicy, Origin, ContentType)> {
    let retry: RetryPolicy = columns.json()?.unwrap_or(RETRY_WHEN_NULL);
    let trace: Option<TraceContext> = columns.json()?;
    let content_type = columns.take::<Option<&str>>()?.map_or(ContentType::JSON, ContentType::other);
    Ok((retry, Origin { trace, ..origin }, content_type))
}

type Holder = (Option<HeldLease>, Option<Timestamp>, Option<WorkerId>, Option<Assignment>);

/// Lease and assignment: both name the worker of one column.
fn holder(columns: &mut Columns<'_>, interner: &mut Interner) -> Result<Holder> {
    let epoch = columns.take::<Option<i64>>()?;
    let token = columns.take::<Option<Token>>()?;
    let (started_at, expires_at) = (columns.at()?, columns.at()?);
    let ttl = columns.take::<Option<i64>>()?;
    let worker = columns.take::<Option<&str>>()?.map(|text| interner.worker(text)).transpose()?;
    let assigned_at = columns.at()?;
    let assigned_epoch = columns.take::<Option<i64>>()?;
    let lease = match (&worker, token, started_at, expires_at, ttl) {
        (Some(worker), Some(token), Some(started_at), Some(expires_at), Some(ttl)) => Some(HeldLease {
            worker: worker.clone(),
            token: token.0,
            epoch: Epoch(epoch.unwrap_or(0).unsigned_abs()),
            started_at,
            expires_at,
            ttl: span(ttl),
        }),
        // An incomplete lease is none: no worker can hold it, and maintenance releases the run.
        _ => None,
    };
    let assignment = match (&worker, assigned_at) {
        (Some(worker), Some(assigned_at)) => {
            let epoch = Epoch(assigned_epoch.unwrap_or(0).unsigned_abs());
            Some(Assignment { worker: worker.clone(), epoch, assigned_at })
        }
        _ => None,
    };
    Ok((lease, started_at, worker, assignment))
}

fn origin(columns: &mut Columns<'_>, scheduled_for: Option<Timestamp>) -> Result<Origin> {
    let job_definition_id = columns.name(JobDefinitionId::new)?;
    let task_group_id = columns.name(TaskGroupId::new)?;
    let session_id = columns.name(SessionId::new)?;
    let retry_of = columns.take::<Option<i64>>()?.map(|id| TaskId(id.unsigned_abs()));
    let labels: Labels = columns.json()?.unwrap_or_default();
    Ok(Origin {
        task_group_id,
        session_id,
        labels,
        job_definition_id,
        scheduled_for,
        retry_of,
        retry_of_external_id: None,
        trace: None,
        external_id: None,
        dispatch: None,
    })
}

fn progress(columns: &mut Columns<'_>) -> Result<Option<Box<Progress>>> {
    let fraction: Option<f32> = columns.take()?;
    let message: Option<&str> = columns.take()?;
    Ok(fraction
        .map(|fraction| Box::new(Progress { fraction, message: message.unwrap_or_default().to_owned() })))
}

/// A closed attempt, as `run_columns!` encodes it in JSON.
type Closed = (u32, String, u64, Option<i64>, i64, String, Option<String>);

/// The closed attempts, and the one that ended the run, which is stored in its row.
fn attempts(
    columns: &mut Columns<'_>,
    interner: &mut Interner,
    head: &Head,
    outcome: Option<&str>,
    last_error: Option<&Arc<str>>,
) -> Result<Attempts> {
    let mut attempts = Vec::new();
    for (attempt, worker, fence, started_at, ended_at, outcome, error) in
        columns.json::<Vec<Closed>>()?.unwrap_or_default()
    {
        attempts.push(AttemptRecord {
            attempt,
            worker: interner.worker(&worker)?,
            fence: Version(fence),
            started_at: started_at.map(Timestamp::from_micros),
            ended_at: Timestamp::from_micros(ended_at),
            outcome: outcome_of(&outcome)?,
            error: error.map(Arc::from),
        });
    }
    if let (Some(outcome), Some(worker), Some(ended_at)) = (outcome, &head.worker, head.finished_at) {
        use weaver_core::task::CancelReason::Handler;
        let reported = matches!(
            head.cause,
            Some(Cause::Failed | Cause::TimedOut | Cause::Lost | Cause::Cancelled(Handler))
        );
        attempts.push(AttemptRecord {
            attempt: head.attempt,
            worker: worker.clone(),
            fence: Version(head.version.0 - 1),
            started_at: head.lease_started_at,
            ended_at,
            outcome: outcome_of(outcome)?,
            error: last_error.filter(|_| reported).cloned(),
        });
    }
    Ok(Attempts::from_oldest_first(attempts))
}
