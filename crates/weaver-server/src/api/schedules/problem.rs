//! Problems of the scheduler's errors.

use axum::http::StatusCode;
use weaver_scheduler::SchedulerError;

use crate::problem::Problem;

impl From<SchedulerError> for Problem {
    fn from(error: SchedulerError) -> Self {
        let detail = error.to_string();
        let conflict = |code, hint: &'static str| Self::new(StatusCode::CONFLICT, code, detail.clone(), hint);
        match error {
            SchedulerError::Invalid(invalid) => {
                let detail = format!("{}: {}", invalid.field, invalid.problem);
                Self::new(StatusCode::BAD_REQUEST, "invalid_field", detail, invalid.hint).field(invalid.field)
            }
            SchedulerError::Schedule(bad) => {
                // The marked part of the expression, without the pointer of the multi-line form.
                let marked = bad.text.get(bad.at.clone()).unwrap_or_default();
                let part = bad.part.map_or_else(String::new, |part| format!(" {part}"));
                let detail = format!("{}{part}: {}, at `{marked}`", bad.field, bad.problem);
                Self::new(StatusCode::BAD_REQUEST, "invalid_schedule", detail, bad.hint).field(bad.field)
            }
            SchedulerError::NotFound { .. } => {
                let hint = "list the schedules of the namespace";
                Self::new(StatusCode::NOT_FOUND, "schedule_not_found", detail, hint)
            }
            SchedulerError::UnknownSetting { key, hint } => {
                let detail = format!("no setting `{key}`");
                Self::new(StatusCode::NOT_FOUND, "setting_not_found", detail, hint)
            }
            SchedulerError::Exists { .. } => conflict("schedule_exists", "edit it, or choose another name"),
            SchedulerError::Stale { .. } => {
                conflict("version_conflict", "read the current version and repeat the change")
            }
            SchedulerError::StillRunning { .. } => {
                conflict("still_running", "wait for its running task, or cancel it")
            }
            SchedulerError::Busy { .. } => {
                let hint = "retry later";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail, hint)
            }
            SchedulerError::Store(error) => error.into(),
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "unreadable",
                detail,
                "remove it and create it again, or use a newer version of Weaver",
            ),
        }
    }
}
