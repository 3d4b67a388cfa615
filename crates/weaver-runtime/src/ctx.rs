//! The context of a handler: its task, its stop signal, progress, logs, follow-up tasks, shared values.

mod log;

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::clock::Clock;
use weaver_core::error::{Error, Result};
use weaver_core::id::TaskKey;
use weaver_core::lease::{Lease, Leased};
use weaver_core::ports::StreamKey;
use weaver_core::queue::Enqueued;
use weaver_core::task::{NewTask, Progress, TaskRecord};
use weaver_core::time::Monotonic;

use crate::error::TaskError;
use crate::source::WorkSource;

pub use log::LogLimits;

use log::AttemptLog;

pub(crate) type SharedValues = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// What all handlers of a worker use. Behind one `Arc`: every task's start and end touches its reference
/// count, from any core.
pub(crate) struct WorkerEnv {
    pub(crate) source: Arc<dyn WorkSource>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) values: SharedValues,
    pub(crate) log_limits: LogLimits,
}

/// A handler's view of its task. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    inner: Arc<Inner>,
}

struct Inner {
    leased: Leased,
    env: Arc<WorkerEnv>,
    // Read for every task that ends, unlike the notes: not worth their lock.
    stop_reason: OnceLock<StopReason>,
    /// Notified when `stop_reason` is set.
    stop_notify: Notify,
    /// Set when the handler is started, if the task has a timeout.
    deadline: OnceLock<Monotonic>,
    /// Whether the handler is to be dropped, polled or not.
    aborted: AtomicBool,
    /// Whether the handler has logged anything in this attempt.
    has_logged: AtomicBool,
    notes: Mutex<Notes>,
    log_writing: tokio::sync::Mutex<()>,
}

/// Progress and log lines that the worker has not sent yet.
#[derive(Default)]
struct Notes {
    progress: Option<Progress>,
    log: AttemptLog,
}

/// Why a handler should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The task was cancelled.
    Cancelled,
    /// The lease is or may be lost: another worker may run the task soon.
    LeaseLost,
    /// The worker shuts down; the task will be released.
    Shutdown,
}

impl Ctx {
    pub(crate) fn new(leased: Leased, env: Arc<WorkerEnv>) -> Self {
        let mut notes = Notes::default();
        notes.log.set_limits(env.log_limits);
        let inner = Inner {
            leased,
            env,
            stop_reason: OnceLock::new(),
            stop_notify: Notify::new(),
            deadline: OnceLock::new(),
            aborted: AtomicBool::new(false),
            has_logged: AtomicBool::new(false),
            notes: Mutex::new(notes),
            log_writing: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Starts the timeout.
    pub(crate) fn start(&self, now: Monotonic) {
        if let Some(timeout) = self.record().spec.timeout {
            self.inner.deadline.get_or_init(|| now.saturating_add(timeout));
        }
    }

    /// Namespace and id of the task.
    pub fn key(&self) -> &TaskKey {
        &self.inner.leased.lease.key
    }

    /// The task as it was when this attempt began.
    pub fn record(&self) -> &TaskRecord {
        &self.inner.leased.record
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.leased.lease.attempt
    }

    /// The fencing token: it only grows per task. Pass it to the systems you write to, and let them refuse a
    /// smaller one.
    pub fn fence(&self) -> u64 {
        self.inner.leased.lease.version.0
    }

    /// The lease of this attempt, for a store that finishes the task in the handler's own transaction.
    pub fn lease(&self) -> &Lease {
        &self.inner.leased.lease
    }

    /// Resolves when the handler should stop; [`stop_reason`](Ctx::stop_reason) says why. A handler that does
    /// not listen is dropped at its next `.await` a little later.
    pub async fn cancelled(&self) {
        loop {
            let stop_notify = self.inner.stop_notify.notified();
            tokio::pin!(stop_notify);
            // Registered before the reason is read: one set in between is not missed.
            stop_notify.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            stop_notify.await;
        }
    }

    /// Whether the handler should stop: for loops that have no `.await`.
    pub fn is_cancelled(&self) -> bool {
        self.stop_reason().is_some()
    }

    /// Why the handler should stop, if it should.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.stop_reason.get().copied()
    }

    /// How long this attempt may still take, if the task has a timeout.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline()?;
        Some(deadline.0.saturating_sub(self.inner.env.clock.monotonic().0))
    }

    /// Sets the progress: `fraction` from 0 to 1. It is sent with the next lease renewal, so frequent calls
    /// are cheap.
    pub fn progress(&self, fraction: f32, message: impl Into<String>) {
        self.inner.notes.lock().progress = Some(Progress { fraction, message: message.into() });
    }

    /// Adds a line to the attempt's log. Lines are appended in batches, the last one before the outcome is
    /// reported. The log keeps its head and its tail ([`LogLimits`]) and says how many lines are missing
    /// between them.
    pub fn log(&self, line: impl Into<String>) {
        self.log_bytes(line.into().as_bytes());
    }

    /// The same for a line that need not be UTF-8: its bytes are kept as they are.
    pub fn log_bytes(&self, line: &[u8]) {
        let line = log::entry(line);
        let mut notes = self.inner.notes.lock();
        self.inner.has_logged.store(true, Ordering::Release);
        notes.log.push(line);
    }

    /// Replaces the worker's log limits for this attempt. To be called before anything is logged.
    pub fn limit_log(&self, limits: LogLimits) {
        self.inner.notes.lock().log.set_limits(limits);
    }

    /// Enqueues a follow-up task in this task's namespace (unless it names another). A handler may run more
    /// than once: give the follow-up an idempotency key if it must not.
    pub async fn enqueue(&self, task: NewTask) -> Result<Enqueued> {
        let task = task.default_namespace(&self.key().namespace);
        let task = match &self.record().spec.origin().trace {
            Some(trace) => task.default_trace(trace),
            None => task,
        };
        let mut answers = self.inner.env.source.enqueue(vec![task]).await?;
        let lost = || {
            Err(Error::Unavailable {
                reason: "the store returned no result for the enqueued task".to_owned(),
            })
        };
        answers.pop().unwrap_or_else(lost)
    }

    /// A shared value of the registry ([`Registry::share`](crate::Registry::share)). A missing one fails the
    /// attempt. A handler that takes it as an argument
    /// ([`Registry::handle_with`](crate::Registry::handle_with)) makes building the worker fail instead.
    pub fn shared<T: Send + Sync + 'static>(&self) -> Result<Arc<T>, TaskError> {
        let found = self.inner.env.values.get(&TypeId::of::<T>()).cloned();
        let value = found.and_then(|value| value.downcast::<T>().ok());
        let name = type_name::<T>();
        value
            .ok_or_else(|| TaskError::retry(format!("no `{name}` is shared: add one with `Registry::share`")))
    }

    pub(crate) fn leased(&self) -> &Leased {
        &self.inner.leased
    }

    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        self.inner.deadline.get().copied()
    }

    /// Signals the handler to stop. The first reason is kept.
    pub(crate) fn stop(&self, reason: StopReason) {
        self.inner.stop_reason.get_or_init(|| reason);
        self.inner.stop_notify.notify_waiters();
    }

    /// Drops the handler before its first poll, or at its next `.await`.
    pub(crate) fn abort(&self) {
        self.inner.aborted.store(true, Ordering::Release);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.inner.aborted.load(Ordering::Acquire)
    }

    pub(crate) fn take_progress(&self) -> Option<Progress> {
        self.inner.notes.lock().progress.take()
    }

    pub(crate) fn has_logged(&self) -> bool {
        self.inner.has_logged.load(Ordering::Acquire)
    }

    /// Serializes log writers: each writes all pending lines before the next does.
    pub(crate) async fn log_writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.inner.log_writing.lock().await
    }

    /// The lines to append now; at the end of the attempt all that remain.
    pub(crate) fn take_log(&self, is_end: bool) -> Vec<Bytes> {
        self.inner.notes.lock().log.take(is_end)
    }

    /// Counts lines that were not stored; a later line of the log says how many.
    pub(crate) fn log_not_stored(&self, count: usize, why: String) {
        self.inner.notes.lock().log.not_stored(count as u64, why);
    }

    pub(crate) fn log_has_unstored(&self) -> bool {
        self.inner.notes.lock().log.has_unstored()
    }

    pub(crate) fn log_stream(&self) -> StreamKey {
        StreamKey::attempt_log(self.key(), self.attempt())
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ctx({}, attempt {})", self.key(), self.attempt())
    }
}
