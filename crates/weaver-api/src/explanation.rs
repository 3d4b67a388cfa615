//! Why a task is in its state.

use serde::{Deserialize, Serialize};
use weaver_core::explain;
use weaver_core::task::{Cause, TaskState};
use weaver_core::time::Timestamp;

/// Why a task waits, runs or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The namespace of the task.
    pub namespace: String,
    /// The id of the task.
    pub id: String,
    /// The task's state at `as_of`.
    pub state: TaskState,
    /// When the reasons were true.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub as_of: Timestamp,
    /// Everything that keeps it from starting; or that it runs; or how it ended.
    pub reasons: Vec<Reason>,
}

/// One reason with its evidence: a `code`, a sentence for people, and the fields that belong to the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reason {
    /// `due_at`, `expired`, `key_held`, `key_unreadable`, `key_waits_for`, `ahead`, `paused`,
    /// `settings_unreadable`, `limit_reached`, `slots_unreadable`, `no_worker`, `next_in_line`, `assigned`,
    /// `orphaned`, `running`, `running_unleased`, `ended` or `handler_stopping`.
    pub code: String,
    /// The reason in one sentence, for people.
    pub message: String,
    /// Since when, or at what time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub at: Option<Timestamp>,
    /// Until when, unless renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<Timestamp>,
    /// Why it waits for a retry, or ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::cause")]
    pub cause: Option<Cause>,
    /// The task that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The worker that holds the lease or the assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The queue that the reason is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The type that no live worker serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Tasks ahead, slots in use, live workers, or lost attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The concurrency limit of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The error it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<&explain::Explanation> for Explanation {
    fn from(explanation: &explain::Explanation) -> Self {
        Self {
            namespace: explanation.key.namespace.to_string(),
            id: explanation.shown_id.clone(),
            state: explanation.state,
            as_of: explanation.as_of,
            reasons: explanation.reasons.iter().map(Reason::from).collect(),
        }
    }
}

impl From<&explain::Reason> for Reason {
    fn from(reason: &explain::Reason) -> Self {
        use explain::Reason as Core;
        let said =
            |code: &str| Self { code: code.to_owned(), message: reason.to_string(), ..Self::default() };
        let text = |name: &dyn std::fmt::Display| Some(name.to_string());
        match reason {
            Core::DueAt { at, because } => Self { at: Some(*at), cause: *because, ..said("due_at") },
            Core::Expired { at } => Self { at: Some(*at), ..said("expired") },
            Core::KeyHeld { by, worker, until } => Self {
                task_id: text(by),
                worker: worker.as_ref().map(ToString::to_string),
                until: *until,
                ..said("key_held")
            },
            Core::KeyUnreadable { by } => Self { task_id: text(by), ..said("key_unreadable") },
            Core::SlotsUnreadable { queue, count } => {
                Self { queue: text(queue), count: Some(*count), ..said("slots_unreadable") }
            }
            Core::SettingsUnreadable { queue } => Self { queue: text(queue), ..said("settings_unreadable") },
            Core::KeyWaitsFor { task } => Self { task_id: text(task), ..said("key_waits_for") },
            Core::Ahead { at_least } => Self { count: Some((*at_least).into()), ..said("ahead") },
            Core::Paused { queue } => Self { queue: text(queue), ..said("paused") },
            Core::LimitReached { queue, occupied, max_running } => Self {
                queue: text(queue),
                count: Some(*occupied),
                max: Some((*max_running).into()),
                ..said("limit_reached")
            },
            Core::NoWorker { queue, task_type, alive } => Self {
                queue: text(queue),
                task_type: text(task_type),
                count: Some((*alive).into()),
                ..said("no_worker")
            },
            Core::NextInLine => said("next_in_line"),
            Core::Assigned { worker, since } => {
                Self { worker: text(worker), at: Some(*since), ..said("assigned") }
            }
            Core::Orphaned { losses } => Self { count: Some((*losses).into()), ..said("orphaned") },
            Core::Running { worker, since, lease_until } => {
                let (at, until) = (Some(*since), Some(*lease_until));
                Self { worker: text(worker), at, until, ..said("running") }
            }
            Core::RunningUnleased => said("running_unleased"),
            Core::Ended { because, at, error, .. } => {
                Self { at: Some(*at), cause: *because, error: error.clone(), ..said("ended") }
            }
            Core::HandlerStopping { worker, until } => {
                Self { worker: text(worker), until: Some(*until), ..said("handler_stopping") }
            }
        }
    }
}
