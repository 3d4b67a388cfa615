//! Task records into [`Task`]s; and back, for workers, which read them and decide nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weaver_core::error::Invalid;
use weaver_core::id::{Epoch, LeaseToken, TaskId, TaskKey, Version};
use weaver_core::name::{ExternalId, SharedText, TaskType, WorkerId, check_name};
use weaver_core::task as core;
use weaver_core::task::{AttemptRecord, Attempts, ContentType, Continuation, Origin, TaskRecord, TaskSpec};

use super::enqueue::payload_bytes;
use super::json::{from_hex, to_hex};
use super::names::to_ms;
use super::{Assignment, Attempt, HeldLease, Json, Progress, Task, Trace};

impl From<&TaskRecord> for Task {
    fn from(record: &TaskRecord) -> Self {
        let (spec, origin) = (&record.spec, record.spec.origin());
        let envelope = &spec.envelope;
        let payload = shown_payload(&envelope.payload, &envelope.content_type);
        let result = record.result.as_ref().and_then(|result| Json::from_bytes(result));
        let text = |name: &dyn std::fmt::Display| name.to_string();
        Self {
            namespace: text(&record.key.namespace),
            id: record.shown_id(),
            external_id: origin.external_id.as_ref().map(|name| text(name)),
            task_type: text(&envelope.task_type),
            queue: text(&spec.queue),
            payload_hex: payload.is_none().then(|| to_hex(&envelope.payload)),
            payload,
            content_type: text(&envelope.content_type),
            priority: spec.priority.get(),
            max_attempts: spec.max_attempts,
            max_losses: spec.max_losses,
            retry: spec.retry.into(),
            timeout_ms: spec.timeout.map(to_ms),
            expires_at: spec.expires_at,
            serial_key: spec.serial_key.as_ref().map(|name| text(name)),
            idempotency_key: spec.idempotency_key.as_ref().map(|name| text(name)),
            task_group_id: origin.task_group_id.as_ref().map(|name| text(name)),
            session_id: origin.session_id.as_ref().map(|name| text(name)),
            labels: origin.labels.clone(),
            job_definition_id: origin.job_definition_id.as_ref().map(|name| text(name)),
            scheduled_for: origin.scheduled_for,
            retry_of: origin.shown_retry_of(),
            dispatch: origin.dispatch,
            trace: origin.trace.clone().map(Trace::from),
            state: record.state,
            cause: record.cause,
            version: record.version.0,
            renewals: record.renewals,
            executions: record.executions,
            failures: record.failures,
            losses: record.losses,
            attempt: record.attempt,
            ready_at: record.ready_at,
            created_at: record.created_at,
            updated_at: record.updated_at,
            first_started_at: record.first_started_at,
            finished_at: record.finished_at,
            last_error: record.last_error.as_deref().map(str::to_owned),
            lease: record.lease.as_ref().map(HeldLease::from),
            assignment: record.assignment.as_ref().map(Assignment::from),
            check_deadline_at: match record.continuation {
                Continuation::None => None,
                Continuation::Confirming { check_deadline_at } => Some(check_deadline_at),
            },
            result_hex: record.result.as_ref().filter(|_| result.is_none()).map(|bytes| to_hex(bytes)),
            result,
            progress: record.progress.as_deref().map(Progress::from),
            attempts: record.attempts.iter().map(Attempt::from).collect(),
        }
    }
}

fn shown_payload(payload: &Bytes, content_type: &ContentType) -> Option<Json> {
    if *content_type == ContentType::JSON {
        return Json::from_bytes(payload);
    }
    std::str::from_utf8(payload).ok().and_then(|text| Json::of(text).ok())
}

impl Task {
    /// The record that this shows, with its key, as `id` may be another client's, and the token of its lease
    /// (any token if it has none).
    pub fn into_record(self, key: TaskKey, token: LeaseToken) -> Result<TaskRecord, Invalid> {
        let lease = self.lease.clone().map(|held| held.into_core(token)).transpose()?;
        let assignment = self.assignment.clone().map(Assignment::into_core).transpose()?;
        let result = match (&self.result, &self.result_hex) {
            (Some(json), _) => Some(Bytes::copy_from_slice(json.as_str().as_bytes())),
            (None, Some(hex)) => Some(from_hex("result_hex", hex)?.into()),
            (None, None) => None,
        };
        let attempts = self.attempts.iter().map(Attempt::to_core).collect::<Result<_, _>>()?;
        Ok(TaskRecord {
            key,
            state: self.state,
            cause: self.cause,
            version: Version(self.version),
            renewals: self.renewals,
            executions: self.executions,
            failures: self.failures,
            losses: self.losses,
            attempt: self.attempt,
            ready_at: self.ready_at,
            ready_by: weaver_core::task::ReadyBy::Span,
            created_at: self.created_at,
            updated_at: self.updated_at,
            first_started_at: self.first_started_at,
            finished_at: self.finished_at,
            last_error: self.last_error.as_deref().map(Arc::from),
            lease,
            assignment,
            continuation: match self.check_deadline_at {
                None => Continuation::None,
                Some(check_deadline_at) => Continuation::Confirming { check_deadline_at },
            },
            result,
            progress: self.progress.clone().map(|progress| Box::new(progress.into())),
            attempts: Attempts::from_oldest_first(attempts),
            spec: Arc::new(self.into_spec()?),
        })
    }

    fn into_spec(self) -> Result<TaskSpec, Invalid> {
        let content_type = match self.content_type.as_str() {
            json if json == ContentType::JSON.as_str() => ContentType::JSON,
            _ => ContentType::other(self.content_type),
        };
        let is_json = content_type == ContentType::JSON;
        let payload = payload_bytes(self.payload, self.payload_hex, is_json)?;
        let origin = Origin {
            task_group_id: name(self.task_group_id.as_ref())?,
            session_id: name(self.session_id.as_ref())?,
            labels: self.labels,
            job_definition_id: name(self.job_definition_id.as_ref())?,
            scheduled_for: self.scheduled_for,
            retry_of: self.retry_of.as_deref().map(TaskId::of_text),
            retry_of_external_id: self
                .retry_of
                .filter(|text| text.parse::<TaskId>().is_err())
                .map(ExternalId::new)
                .transpose()?,
            dispatch: self.dispatch,
            trace: self.trace.map(Into::into),
            external_id: self.external_id.map(ExternalId::new).transpose()?,
        };
        let priority = core::Priority::new(self.priority).unwrap_or(core::Priority::LOWEST);
        Ok(TaskSpec {
            queue: weaver_core::name::QueueName::new(self.queue)?,
            envelope: core::TaskEnvelope { task_type: TaskType::new(self.task_type)?, payload, content_type },
            priority,
            max_attempts: self.max_attempts,
            max_losses: self.max_losses,
            retry: self.retry.into(),
            timeout: self.timeout_ms.map(Duration::from_millis),
            expires_at: self.expires_at,
            serial_key: name(self.serial_key.as_ref())?,
            idempotency_key: name(self.idempotency_key.as_ref())?,
            origin: origin.boxed(),
        })
    }
}

fn name<T>(text: Option<&String>) -> Result<Option<T>, Invalid>
where
    T: for<'a> TryFrom<&'a str, Error = Invalid>,
{
    text.map(|text| T::try_from(text)).transpose()
}

/// Refuses what is no id of a task: neither a number nor a name that another client can choose.
pub(super) fn task_id(text: &str) -> Result<&str, Invalid> {
    check_name("id", text).map(|()| text)
}

impl From<&core::HeldLease> for HeldLease {
    fn from(held: &core::HeldLease) -> Self {
        Self {
            worker: held.worker.to_string(),
            epoch: held.epoch.0,
            started_at: held.started_at,
            expires_at: held.expires_at,
            ttl_ms: to_ms(held.ttl),
        }
    }
}

impl HeldLease {
    fn into_core(self, token: LeaseToken) -> Result<core::HeldLease, Invalid> {
        Ok(core::HeldLease {
            worker: WorkerId::new(self.worker)?,
            token,
            epoch: Epoch(self.epoch),
            started_at: self.started_at,
            expires_at: self.expires_at,
            ttl: Duration::from_millis(self.ttl_ms),
        })
    }
}

impl From<&core::Assignment> for Assignment {
    fn from(given: &core::Assignment) -> Self {
        Self { worker: given.worker.to_string(), epoch: given.epoch.0, assigned_at: given.assigned_at }
    }
}

impl Assignment {
    fn into_core(self) -> Result<core::Assignment, Invalid> {
        let worker = WorkerId::new(self.worker)?;
        Ok(core::Assignment { worker, epoch: Epoch(self.epoch), assigned_at: self.assigned_at })
    }
}

impl From<&core::Progress> for Progress {
    fn from(progress: &core::Progress) -> Self {
        Self { fraction: progress.fraction, message: progress.message.clone() }
    }
}

impl From<Progress> for core::Progress {
    fn from(progress: Progress) -> Self {
        Self { fraction: progress.fraction, message: progress.message }
    }
}

impl From<core::TraceContext> for Trace {
    fn from(trace: core::TraceContext) -> Self {
        Self { traceparent: trace.traceparent, tracestate: trace.tracestate }
    }
}

impl From<Trace> for core::TraceContext {
    fn from(trace: Trace) -> Self {
        Self { traceparent: trace.traceparent, tracestate: trace.tracestate }
    }
}

impl From<&AttemptRecord> for Attempt {
    fn from(attempt: &AttemptRecord) -> Self {
        Self {
            attempt: attempt.attempt,
            worker: attempt.worker.to_string(),
            fence: attempt.fence.0,
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            outcome: attempt.outcome,
            error: attempt.error.as_deref().map(str::to_owned),
        }
    }
}

impl Attempt {
    fn to_core(&self) -> Result<AttemptRecord, Invalid> {
        Ok(AttemptRecord {
            attempt: self.attempt,
            worker: WorkerId::new(SharedText::from(self.worker.clone()))?,
            fence: Version(self.fence),
            started_at: self.started_at,
            ended_at: self.ended_at,
            outcome: self.outcome,
            error: self.error.as_deref().map(Arc::from),
        })
    }
}
