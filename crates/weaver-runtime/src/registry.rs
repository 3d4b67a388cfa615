//! The registry: handlers by task type, and the values they share.

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
use crate::shared::{FromShared, SharedType};

/// The handlers of a worker by task type, and the values they share.
///
/// ```
/// use serde::Deserialize;
/// use weaver_runtime::{Ctx, Registry, Shared, TaskError};
///
/// #[derive(Deserialize)]
/// struct Email { to: String }
///
/// struct Mailer;
///
/// async fn send_email(email: Email, _mailer: Shared<Mailer>, ctx: Ctx) -> Result<usize, TaskError> {
///     ctx.log(format!("to {}", email.to));
///     Ok(email.to.len())
/// }
///
/// let registry = Registry::new().share(Mailer).handle_with("send_email", send_email)?;
/// # Ok::<(), weaver_core::error::Invalid>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    handlers: BTreeMap<TaskType, Arc<dyn TaskHandler>>,
    values: SharedValues,
    /// Shared values that handlers require, each with its task type if known.
    needs: Vec<(Option<TaskType>, SharedType)>,
}

/// A handler needs a shared value that the registry does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingShared {
    /// The Rust type of the value.
    pub type_name: &'static str,
    /// The task type whose handler needs it, if known.
    pub task_type: Option<TaskType>,
}

impl std::error::Error for MissingShared {}

impl std::fmt::Display for MissingShared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.type_name;
        match &self.task_type {
            Some(task_type) => {
                write!(out, "the handler of `{task_type}` needs a shared `{name}`, and none is registered")?;
            }
            None => write!(out, "handlers need a shared `{name}`, and none is registered")?,
        }
        out.write_str(": add one with `Registry::share`")
    }
}

impl Registry {
    /// Without handlers and shared values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles tasks of a type with a plain `async fn(Args, Ctx) -> Result<Output, TaskError>`. The payload
    /// is decoded from JSON into `Args`; the returned value is stored as JSON, unless it is an `Outcome`. A
    /// second handler of the type replaces the first.
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

    /// The same for a handler that takes shared values as its second argument: a [`Shared`](crate::Shared),
    /// or a tuple of them. Building the worker fails if one of them is missing.
    pub fn handle_with<F, Fut, Args, Values, Output>(
        self,
        task_type: impl Into<SharedText>,
        function: F,
    ) -> Result<Self, Invalid>
    where
        F: Fn(Args, Values, Ctx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, TaskError>> + Send + 'static,
        Args: DeserializeOwned + Send + 'static,
        Values: FromShared + 'static,
        Output: IntoOutcome + Send + 'static,
    {
        let task_type = TaskType::new(task_type)?;
        let needs = Values::needs().into_iter().map(|need| (Some(task_type.clone()), need));
        let mut registry = self.handler(TypedHandler::new(task_type.clone(), move |args: Args, ctx: Ctx| {
            let begun = Values::from_shared(&ctx).map(|values| function(args, values, ctx));
            async move { begun?.await }
        }));
        registry.needs.extend(needs);
        Ok(registry)
    }

    /// Requires a shared value of this type, for handlers that read it with `ctx.shared::<T>()` and for
    /// implementations of [`TaskHandler`]. Building the worker fails if it is missing.
    #[must_use]
    pub fn needs<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push((None, SharedType::of::<T>()));
        self
    }

    /// Adds a handler. A second one of its type replaces the first.
    #[must_use]
    pub fn handler(mut self, handler: impl TaskHandler + 'static) -> Self {
        let task_type = handler.task_type().clone();
        // The new handler need not require what the replaced one did.
        self.needs.retain(|(needed_by, _)| needed_by.as_ref() != Some(&task_type));
        self.handlers.insert(task_type, Arc::new(handler));
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

    /// Refuses a registry whose handlers need values that it does not share.
    pub(crate) fn check_shared(&self) -> Result<(), MissingShared> {
        match self.needs.iter().find(|(_, need)| !self.values.contains_key(&need.id)) {
            None => Ok(()),
            Some((task_type, need)) => {
                Err(MissingShared { type_name: need.name, task_type: task_type.clone() })
            }
        }
    }

    pub(crate) fn values(&self) -> SharedValues {
        self.values.clone()
    }

    /// The error of a task whose type has no handler.
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
