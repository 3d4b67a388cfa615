//! A submission after validation.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Invalid;
use crate::limits::Limits;
use crate::name::Namespace;
use crate::task::{NewTask, TaskSpec};
use crate::time::Timestamp;

/// A task that passed every check; what a store admits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct ValidTask {
    /// The namespace in which the store assigns its id.
    pub namespace: Namespace,
    /// The part that never changes.
    pub spec: Arc<TaskSpec>,
    /// When it may first start.
    pub start: Start,
}

/// When a task may first start, before the store's clock is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As soon as it is stored.
    Now,
    /// This long after it is stored.
    After(Duration),
    /// At this instant; at once if it has passed.
    At(Timestamp),
}

/// Validates a whole batch before anything of it is stored: one invalid member, and nothing is enqueued.
pub fn validate_batch(tasks: Vec<NewTask>, limits: &Limits) -> Result<Vec<ValidTask>, Invalid> {
    limits.check_batch("tasks", tasks.len())?;
    tasks
        .into_iter()
        .enumerate()
        .map(|(index, task)| task.validate(limits).map_err(|invalid| invalid.at(index)))
        .collect()
}
