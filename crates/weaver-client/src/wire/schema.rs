//! Schemas of the domain's enums, which know nothing of OpenAPI. Only their shape is used, never a value.
#![allow(dead_code, reason = "only the derived schemas are used")]

use utoipa::ToSchema;

/// Where a task is in its life.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum TaskState {
    Queued,
    Scheduled,
    Assigned,
    Orphaned,
    Running,
    RetryScheduled,
    Succeeded,
    Dead,
    Cancelled,
}

/// How an attempt ended.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum AttemptOutcome {
    Succeeded,
    Failed,
    TimedOut,
    Lost,
    Released,
    Snoozed,
    Cancelled,
    Orphaned,
}

/// What a runner is told.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Directive {
    Run,
    Drain,
    Stop,
}

/// Whether a runner said goodbye.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum RunnerStatus {
    Running,
    Stopped,
}

/// What kind of record cannot be read.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum RecordKind {
    Task,
    QueueSettings,
    Runner,
    Document,
}
