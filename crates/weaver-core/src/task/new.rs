//! Submitting a task: a builder over untrusted text, and the one place where it is validated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Invalid, Problem};
use crate::id::TaskId;
use crate::limits::Limits;
use crate::name::{
    ExternalId, IdempotencyKey, JobDefinitionId, Namespace, QueueName, SerialKey, SessionId, SharedText,
    TaskGroupId, TaskType, name_problem,
};
use crate::retry::{RetryPolicy, check_delay};
use crate::task::fields::{self, Kind};
use crate::task::{
    ContentType, Dispatch, Labels, Origin, Priority, Start, TaskEnvelope, TaskSpec, TraceContext,
    TypeDefaults, ValidTask,
};
use crate::time::Timestamp;

/// A task to enqueue. Everything but the type has a default; nothing is validated before it is enqueued.
///
/// ```
/// use std::time::Duration;
/// use weaver_core::task::NewTask;
///
/// let task = NewTask::new("send_email")
///     .json(&serde_json::json!({ "to": "ada@example.org" }))?
///     .queue("mail")
///     .priority(2)
///     .delay(Duration::from_secs(60))
///     .label("customer", "42");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a task does nothing until it is enqueued"]
pub struct NewTask {
    task_type: SharedText,
    payload: Bytes,
    content_type: ContentType,
    namespace: Option<SharedText>,
    queue: Option<SharedText>,
    // What the producer chose; the rest is the default of its type, filled in by `validate`.
    priority: Option<u8>,
    delay: Option<Duration>,
    run_at: Option<Timestamp>,
    max_attempts: Option<u32>,
    max_losses: Option<u32>,
    retry: Option<RetryPolicy>,
    timeout: Option<Duration>,
    expires_at: Option<Timestamp>,
    serial_key: Option<SharedText>,
    idempotency_key: Option<SharedText>,
    // Boxed for the same reason as in `TaskSpec`: most tasks have none of it.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Clone, Default)]
struct Extra {
    task_group_id: Option<SharedText>,
    session_id: Option<SharedText>,
    labels: Labels,
    job_definition_id: Option<SharedText>,
    scheduled_for: Option<Timestamp>,
    retry_of: Option<TaskId>,
    retry_of_external_id: Option<ExternalId>,
    trace: Option<TraceContext>,
    dispatch: Option<Dispatch>,
}

macro_rules! text_setter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, text: impl Into<SharedText>) -> Self {
            self.$name = Some(text.into());
            self
        }
    };
    ($(#[$doc:meta])* extra $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, text: impl Into<SharedText>) -> Self {
            self.extra().$name = Some(text.into());
            self
        }
    };
}

impl NewTask {
    /// A task of this type with the payload `null`, in queue `default` of namespace `default`.
    pub fn new(task_type: impl Into<SharedText>) -> Self {
        Self {
            task_type: task_type.into(),
            payload: Bytes::from_static(b"null"),
            content_type: ContentType::JSON,
            namespace: None,
            queue: None,
            priority: None,
            delay: None,
            run_at: None,
            max_attempts: None,
            max_losses: None,
            retry: None,
            timeout: None,
            expires_at: None,
            serial_key: None,
            idempotency_key: None,
            extra: None,
        }
    }

    /// Sets the payload, serialized as JSON; replaces any earlier one.
    pub fn json<T: serde::Serialize + ?Sized>(mut self, payload: &T) -> Result<Self, serde_json::Error> {
        self.payload = serde_json::to_vec(payload)?.into();
        self.content_type = ContentType::JSON;
        Ok(self)
    }

    /// Sets the payload, in the form that the content type names.
    pub fn payload(mut self, payload: impl Into<Bytes>, content_type: ContentType) -> Self {
        self.payload = payload.into();
        self.content_type = content_type;
        self
    }

    text_setter!(
        /// The namespace; `default` if not given.
        namespace
    );
    text_setter!(
        /// The queue; `default` if not given.
        queue
    );
    text_setter!(
        /// Tasks with the same key in a namespace run one at a time, in order of their ids.
        serial_key
    );
    text_setter!(
        /// A second enqueue with this key in the namespace returns this task instead of making another.
        idempotency_key
    );
    text_setter!(
        /// The group it is listed under.
        extra task_group_id
    );
    text_setter!(
        /// The agent conversation it is part of; the serial key of a prompt that has none.
        extra session_id
    );
    text_setter!(
        /// The schedule it is a run of. With `scheduled_for` it is unique: one run per planned instant.
        extra job_definition_id
    );

    /// From 0, the most urgent, to 9. If not given, the default of its type ([`TypeDefaults`]).
    pub fn priority(mut self, number: u8) -> Self {
        self.priority = Some(number);
        self
    }

    /// Not before this long from now, by the store's clock. Excludes `run_at`.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Not before this instant, by the wall clock. Excludes `delay`.
    pub fn run_at(mut self, instant: Timestamp) -> Self {
        self.run_at = Some(instant);
        self
    }

    /// Failed attempts before it is dead, the first included. If not given, the default of its type
    /// ([`MAX_ATTEMPTS_DEFAULT`](crate::task::MAX_ATTEMPTS_DEFAULT) of most).
    pub fn max_attempts(mut self, count: u32) -> Self {
        self.max_attempts = Some(count);
        self
    }

    /// Lost attempts that it survives; 0: it is dead once its lease expired. If not given, the
    /// default of its type ([`MAX_LOSSES_DEFAULT`](crate::task::MAX_LOSSES_DEFAULT) of most).
    pub fn max_losses(mut self, count: u32) -> Self {
        self.max_losses = Some(count);
        self
    }

    /// The backoff after a failed attempt. If not given, the default of its type
    /// ([`RetryPolicy::DEFAULT`] of most).
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }

    /// The longest one attempt may take, at least 1 ms. If not given, as long as its lease is renewed.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }

    /// Cancel it if it has not started by then, by the wall clock.
    pub fn expires_at(mut self, instant: Timestamp) -> Self {
        self.expires_at = Some(instant);
        self
    }

    /// Attaches a label, replacing one of the same name.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra().labels.insert(name.into(), value.into());
        self
    }

    /// The planned instant of the run, for tasks that a schedule creates.
    pub fn scheduled_for(mut self, instant: Timestamp) -> Self {
        self.extra().scheduled_for = Some(instant);
        self
    }

    /// Who chooses its worker. If not given, its queue says so.
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.extra().dispatch = Some(dispatch);
        self
    }

    /// The W3C trace context of the producer.
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.extra().trace = Some(trace);
        self
    }

    /// The type as given to [`new`](Self::new), before validation.
    pub fn task_type_text(&self) -> &SharedText {
        &self.task_type
    }

    /// In this namespace, unless it names one: for follow-ups of a task.
    pub fn default_namespace(mut self, namespace: &Namespace) -> Self {
        self.namespace.get_or_insert_with(|| namespace.into());
        self
    }

    /// Part of this trace, unless it has one: for follow-ups of a task.
    pub fn default_trace(mut self, trace: &TraceContext) -> Self {
        self.extra().trace.get_or_insert_with(|| trace.clone());
        self
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// A retry of a terminal task: linked to it by `retry_of`, without its unique keys and its expiry. It
    /// keeps the limits of the original, whatever the defaults of its type are now.
    pub(crate) fn retry_as_new(namespace: &Namespace, id: TaskId, spec: &TaskSpec) -> Self {
        let origin = spec.origin();
        let mut task = Self::new(&spec.envelope.task_type)
            .payload(spec.envelope.payload.clone(), spec.envelope.content_type.clone())
            .namespace(namespace)
            .queue(&spec.queue)
            .priority(spec.priority.get())
            .max_attempts(spec.max_attempts)
            .max_losses(spec.max_losses)
            .retry(spec.retry);
        task.timeout = spec.timeout;
        task.serial_key = spec.serial_key.as_ref().map(SharedText::from);
        task.extra = Some(Box::new(Extra {
            task_group_id: origin.task_group_id.as_ref().map(SharedText::from),
            session_id: origin.session_id.as_ref().map(SharedText::from),
            labels: origin.labels.clone(),
            job_definition_id: origin.job_definition_id.as_ref().map(SharedText::from),
            scheduled_for: None,
            retry_of: Some(id),
            retry_of_external_id: origin.external_id.clone(),
            trace: origin.trace.clone(),
            dispatch: origin.dispatch,
        }));
        task
    }

    /// Fills in the defaults of its type and checks every field against the store's limits.
    pub fn validate(self, limits: &Limits) -> Result<ValidTask, Invalid> {
        let payload_bytes = self.payload.len();
        if payload_bytes > limits.max_payload_bytes {
            let problem = Problem::TooLong { bytes: payload_bytes, max_bytes: limits.max_payload_bytes };
            return Err(Invalid::new("payload", problem));
        }
        if self.content_type != ContentType::JSON
            && let Some(problem) = name_problem(self.content_type.as_str())
        {
            return Err(Invalid::new("content_type", problem));
        }
        let start = self.start()?;
        let task_type = TaskType::new(self.task_type)?;
        let defaults = TypeDefaults::of(task_type.as_str());
        let priority = self.priority.unwrap_or(defaults.priority.get());
        let priority = Priority::new(priority)
            .ok_or_else(|| out_of_range("priority", priority.into(), 0, Priority::LOWEST.get().into()))?;
        let max_attempts = self.max_attempts.unwrap_or(defaults.max_attempts);
        check_kind("max_attempts", max_attempts, fields::MAX_ATTEMPTS)?;
        let max_losses = self.max_losses.unwrap_or(defaults.max_losses);
        check_kind("max_losses", max_losses, fields::MAX_LOSSES)?;
        let retry = self.retry.unwrap_or(defaults.retry);
        retry.validate()?;
        if let Some(timeout) = self.timeout {
            check_timeout(timeout)?;
        }
        let origin = self.extra.map(|extra| extra.validate()).transpose()?;
        let session = origin.as_ref().and_then(|origin| origin.session_id.as_ref());
        let session = session.filter(|_| defaults.is_serial_by_session).map(SharedText::from);
        let spec = TaskSpec {
            queue: self.queue.map_or_else(|| Ok(QueueName::default()), QueueName::new)?,
            envelope: TaskEnvelope { task_type, payload: self.payload, content_type: self.content_type },
            priority,
            max_attempts,
            max_losses,
            retry,
            timeout: self.timeout,
            expires_at: self.expires_at,
            serial_key: self.serial_key.or(session).map(SerialKey::new).transpose()?,
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            origin: origin.and_then(Origin::boxed),
        };
        let namespace = self.namespace.map_or_else(|| Ok(Namespace::default()), Namespace::new)?;
        Ok(ValidTask { namespace, spec: Arc::new(spec), start })
    }

    fn start(&self) -> Result<Start, Invalid> {
        match (self.delay, self.run_at) {
            (Some(_), Some(_)) => Err(Invalid::new("delay", Problem::Conflicts { other: "run_at" })),
            (Some(delay), None) => {
                // No store's clock could add a longer one: refuse it before anything is stored.
                Timestamp::MIN
                    .checked_add(delay)
                    .ok_or_else(|| Invalid::new("delay", Problem::TimeOverflow { latest: Timestamp::MAX }))?;
                check_delay("delay", delay)?;
                Ok(Start::After(delay))
            }
            (None, Some(instant)) => Ok(Start::At(instant)),
            (None, None) => Ok(Start::Now),
        }
    }
}

impl Extra {
    fn validate(self) -> Result<Origin, Invalid> {
        let labels = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        check_range("labels", labels, 0, fields::LABELS_MAX as u32)?;
        for text in self.labels.iter().flat_map(|(name, value)| [name, value]) {
            if let Some(problem) = name_problem(text) {
                return Err(Invalid::new("labels", problem));
            }
        }
        if let Some(trace) = &self.trace {
            trace.validate()?;
        }
        Ok(Origin {
            task_group_id: self.task_group_id.map(TaskGroupId::new).transpose()?,
            session_id: self.session_id.map(SessionId::new).transpose()?,
            labels: self.labels,
            job_definition_id: self.job_definition_id.map(JobDefinitionId::new).transpose()?,
            scheduled_for: self.scheduled_for,
            retry_of: self.retry_of,
            retry_of_external_id: self.retry_of_external_id,
            trace: self.trace,
            external_id: None,
            dispatch: self.dispatch,
        })
    }
}

fn out_of_range(field: &'static str, value: u64, min: u64, max: u64) -> Invalid {
    Invalid::new(field, Problem::OutOfRange { value, min, max })
}

fn check_range(field: &'static str, value: u32, min: u32, max: u32) -> Result<(), Invalid> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(out_of_range(field, value.into(), min.into(), max.into()))
}

/// Checks by the range in the table of fields.
fn check_kind(field: &'static str, value: u32, kind: Kind) -> Result<(), Invalid> {
    match kind {
        Kind::Integer { min, max } => check_range(field, value, min, max),
        _ => Ok(()),
    }
}

fn check_timeout(value: Duration) -> Result<(), Invalid> {
    check_delay("timeout", value)?;
    let min = fields::TIMEOUT_MIN;
    if value < min {
        let problem = Problem::SpanOutOfRange { value, min, max: crate::retry::DELAY_MAX };
        return Err(Invalid::new("timeout", problem));
    }
    Ok(())
}
