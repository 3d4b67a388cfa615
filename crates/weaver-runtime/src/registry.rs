//! Handlers by type.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use weaver_core::error::Invalid;
use weaver_core::name::{SharedText, TaskType};
use weaver_core::outcome::IntoOutcome;

use crate::ctx::{Ctx, SharedValues};
use crate::error::TaskError;
use crate::handler::{TaskHandler, TypedHandler};

/// What a worker can run, and what its handlers share.
///
/// ```
/// use serde::Deserialize;
/// use weaver_runtime::{Ctx, Registry, TaskError};
///
/// #[derive(Deserialize)]
/// struct Email { to: String }
///
/// struct Mailer;
///
/// async fn send_email(email: Email, ctx: Ctx) -> Result<usize, TaskError> {
///     let _mailer = ctx.shared::<Mailer>()?;
///     ctx.log(format!("to {}", email.to));
///     Ok(email.to.len())
/// }
///
/// let registry = Registry::new().share(Mailer).handle("send_email", send_email)?;
/// # Ok::<(), weaver_core::error::Invalid>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    handlers: BTreeMap<TaskType, Arc<dyn TaskHandler>>,
    values: SharedValues,
}

impl Registry {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles tasks of a type with a plain `async fn(Args, Ctx) -> Result<Output, TaskError>`. The payload is read as
    /// JSON into `Args`; what it returns is kept as JSON, unless it is an `Outcome`. A second handler of the type replaces
    /// the first.
    pub fn handle<F, Fut, Args, Output>(
        self,
        task_type: impl Into<SharedText>,
        function: F,
    ) -> Result<Self, Invalid>
    where
        F: Fn(Args, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, TaskError>> + Send + 'static,
        Args: DeserializeOwned + Send + 'static,
        Output: IntoOutcome + Send + 'static,
    {
        Ok(self.handler(TypedHandler::new(TaskType::new(task_type)?, function)))
    }

    /// Adds a handler. A second one of its type replaces the first.
    #[must_use]
    pub fn handler(mut self, handler: impl TaskHandler + 'static) -> Self {
        self.handlers.insert(handler.task_type().clone(), Arc::new(handler));
        self
    }

    /// Shares a value with all handlers: `ctx.shared::<T>()` finds it by its type.
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// The types that have a handler.
    pub fn types(&self) -> impl Iterator<Item = &TaskType> {
        self.handlers.keys()
    }

    pub(crate) fn find(&self, task_type: &TaskType) -> Option<&Arc<dyn TaskHandler>> {
        self.handlers.get(task_type)
    }

    pub(crate) fn values(&self) -> SharedValues {
        self.values.clone()
    }

    /// What to say when a task comes that nobody handles.
    pub(crate) fn unknown(&self, task_type: &TaskType) -> String {
        if self.handlers.is_empty() {
            return format!("no handler for task type `{task_type}`: this worker has none registered");
        }
        let known: Vec<_> = self.types().map(|known| format!("`{known}`")).collect();
        format!("no handler for task type `{task_type}`: this worker has {}", known.join(", "))
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_set().entries(self.types()).finish()
    }
}
