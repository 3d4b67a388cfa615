//! Handlers: one per task type.

use std::future::Future;
use std::marker::PhantomData;

use async_trait::async_trait;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use weaver_core::name::TaskType;
use weaver_core::outcome::{IntoOutcome, Outcome};

use crate::ctx::Ctx;
use crate::error::TaskError;

/// Runs the tasks of one type (seed 001). Most handlers are plain `async fn`s given to
/// [`Registry::handle`](crate::Registry::handle); implement this for full control over payload and outcome.
#[async_trait]
pub trait TaskHandler: Send + Sync {
    /// The type it handles.
    fn task_type(&self) -> &TaskType;

    /// Runs one attempt. It may run more than once per task (at-least-once), and may be dropped at any
    /// `.await` after a stop signal.
    async fn execute(&self, payload: Bytes, ctx: Ctx) -> Outcome;
}

/// A plain `async fn(Args, Ctx) -> Result<Output, TaskError>` as a handler.
pub(crate) struct TypedHandler<F, Args> {
    task_type: TaskType,
    function: F,
    args: PhantomData<fn() -> Args>,
}

impl<F, Args> TypedHandler<F, Args> {
    pub(crate) fn new(task_type: TaskType, function: F) -> Self {
        Self { task_type, function, args: PhantomData }
    }
}

#[async_trait]
impl<F, Fut, Args, Output> TaskHandler for TypedHandler<F, Args>
where
    F: Fn(Args, Ctx) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Output, TaskError>> + Send,
    Args: DeserializeOwned + Send,
    Output: IntoOutcome + Send,
{
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, _payload: Bytes, ctx: Ctx) -> Outcome {
        let args = match ctx.record().spec.envelope.decode::<Args>() {
            Ok(args) => args,
            Err(invalid) => return Outcome::undecodable(&invalid),
        };
        match (self.function)(args, ctx).await {
            Ok(output) => output.into_outcome(),
            Err(error) => error.into_outcome(),
        }
    }
}

/// Runs blocking work (heavy computation, synchronous I/O) on tokio's blocking pool. It cannot be
/// interrupted: check [`Ctx::is_cancelled`] in long loops.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TaskError> + Send + 'static,
) -> Result<T, TaskError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            // Resumed here, so that the worker reports it with its message.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(TaskError::retry(error)),
        },
    }
}
