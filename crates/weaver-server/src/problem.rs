//! Errors as problem documents (RFC 9457): a stable code for programs, a detail and a hint for people.

use std::borrow::Cow;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use weaver_api as wire;
use weaver_core::error::{Error, Invalid, Problem as FieldProblem};
use weaver_core::id::TaskKey;
use weaver_core::lifecycle::Refused;
use weaver_core::quarantine::Unreadable;

use crate::security::Refusal;

/// An error response. `code` is stable; `detail` and `hint` may change between versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Cow<'static, str>,
    field: Option<String>,
    index: Option<usize>,
}

impl Problem {
    /// `code` is snake_case and becomes `urn:weaver:problem:{code}`.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, detail: detail.into(), hint: hint.into(), field: None, index: None }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>, hint: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail, hint)
    }

    #[must_use]
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Names the member of the batch, counted from 0.
    #[must_use]
    pub(crate) fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// Without the index: a request with a single task is not a batch.
    #[must_use]
    pub(crate) fn of_one(mut self) -> Self {
        if let Some(index) = self.index.take() {
            let prefix = format!("member {index} of the batch: ");
            if let Some(rest) = self.detail.strip_prefix(&prefix) {
                self.detail = rest.to_owned();
            }
        }
        self
    }

    /// The stable code that programs match on, such as `task_not_found`.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The RFC 9457 document; its title is the status's reason phrase.
    pub fn to_wire(&self) -> wire::Problem {
        wire::Problem {
            kind: format!("urn:weaver:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail.clone(),
            hint: self.hint.clone().into_owned(),
            field: self.field.clone(),
            index: self.index.map(|index| index as u64),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.to_wire()).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let hint = match invalid.problem {
            FieldProblem::UnknownCursor => "list again without a cursor",
            FieldProblem::Conflicts { .. } => "send only one of them",
            FieldProblem::TokenTaken => "send 128 new random bits",
            _ => "correct the field and send the request again",
        };
        let field = field_on_the_wire(invalid.field);
        let detail = match invalid.index {
            Some(index) => format!("member {index} of the batch: {field} {}", invalid.problem),
            None => format!("{field} {}", invalid.problem),
        };
        // An unknown cursor is 404, a lease token in use 409, any other problem an invalid request.
        let problem = match invalid.problem {
            FieldProblem::UnknownCursor => Self::new(StatusCode::NOT_FOUND, "unknown_cursor", detail, hint),
            FieldProblem::TokenTaken => Self::new(StatusCode::CONFLICT, "token_taken", detail, hint),
            _ => Self::bad_request("invalid_field", detail, hint),
        };
        let problem = problem.field(field);
        match invalid.index {
            Some(index) => problem.at(index),
            None => problem,
        }
    }
}

/// Durations carry their unit in JSON.
fn field_on_the_wire(field: &'static str) -> &'static str {
    match field {
        "delay" => "delay_ms",
        "timeout" => "timeout_ms",
        "ttl" => "ttl_ms",
        other => other,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let conflict = |code, hint| Self::new(StatusCode::CONFLICT, code, detail.clone(), hint);
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::NotFound { .. } => task_not_found(detail),
            Error::Refused { refused, .. } => match refused {
                Refused::Ended { .. } => conflict("task_ended", "retry it: that enqueues a copy of the task"),
                Refused::NotEnded { .. } => {
                    conflict("task_not_ended", "cancel the task, or wait for its end")
                }
                _ => conflict("not_allowed", "read the task: its state does not allow this"),
            },
            // Not 5xx: the server is healthy, and a retry would fail the same way.
            Error::Quarantined { key, reason } => task_unreadable(&key, &reason),
            Error::Stale { .. } => conflict("stale", "read the task again"),
            Error::Conflict { .. } => {
                conflict("version_conflict", "read the current version and repeat the change")
            }
            Error::Deposed { .. } => conflict("deposed", "stop acting as leader"),
            Error::Unavailable { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail, "retry later")
            }
            Error::Damaged { .. } => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "store_damaged",
                detail,
                "check the store with `weaver store check`",
            ),
            Error::Rejected { hint, .. } => {
                Self::new(StatusCode::BAD_GATEWAY, "rejected_upstream", detail, hint)
            }
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                detail,
                "this is a bug in Weaver: report it with the server's log",
            ),
        }
    }
}

/// For refusals in handlers; layers turn theirs into a response themselves, with its headers.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status, refusal.code, refusal.detail, refusal.hint)
    }
}

pub(crate) fn stopping() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        "the server is shutting down",
        "retry on another server, or after the restart",
    )
}

/// The task exists, but this server cannot read its record.
fn task_unreadable(key: &TaskKey, why: &Unreadable) -> Problem {
    let detail = format!("task {key} cannot be read: {why}");
    Problem::new(StatusCode::CONFLICT, "task_unreadable", detail, why.next_step(key))
}

pub(crate) fn task_not_found(detail: impl Into<String>) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "task_not_found",
        detail,
        "check the id and the namespace; ended tasks are purged after their retention",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_the_json_field_and_the_member_of_the_batch() {
        let invalid = Invalid::new("ttl", FieldProblem::Empty).at(3);
        let problem = Problem::from(invalid).to_wire();
        assert_eq!((problem.field.as_deref(), problem.index), (Some("ttl_ms"), Some(3)));
        assert!(problem.detail.starts_with("member 3 of the batch: ttl_ms"), "{}", problem.detail);
    }

    #[test]
    fn an_unavailable_store_is_answered_with_503_and_retry_after() {
        let response = Problem::from(Error::Unavailable { reason: "x".into() }).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}
