//! Errors as problem documents (RFC 9457): a stable code for programs, and for people what was wrong and what
//! to do.

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

/// What a request was answered with instead of what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    next: Cow<'static, str>,
    field: Option<String>,
    index: Option<usize>,
}

impl Problem {
    /// A problem of a kind.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        next: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, detail: detail.into(), next: next.into(), field: None, index: None }
    }

    /// A request that cannot be understood.
    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>, next: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail, next)
    }

    /// The same, naming the field.
    #[must_use]
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same, naming the member of the batch.
    #[must_use]
    pub(crate) fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// The same without an index: whoever sent one task did not send a batch.
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

    /// What programs go by.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The document.
    pub fn to_wire(&self) -> wire::Problem {
        wire::Problem {
            kind: format!("urn:weaver:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail.clone(),
            next: self.next.clone().into_owned(),
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
        let next = match invalid.problem {
            FieldProblem::UnknownCursor => "start again without a cursor",
            FieldProblem::Conflicts { .. } => "give one of them",
            FieldProblem::TokenTaken => "draw 128 fresh random bits",
            _ => "correct the field and send the request again",
        };
        let field = field_on_the_wire(invalid.field);
        let detail = match invalid.index {
            Some(index) => format!("member {index} of the batch: {field} {}", invalid.problem),
            None => format!("{field} {}", invalid.problem),
        };
        // What a cursor stood for is not there, a token is somebody else's; anything else is wrong in itself.
        let problem = match invalid.problem {
            FieldProblem::UnknownCursor => Self::new(StatusCode::NOT_FOUND, "unknown_cursor", detail, next),
            FieldProblem::TokenTaken => Self::new(StatusCode::CONFLICT, "token_taken", detail, next),
            _ => Self::bad_request("invalid_field", detail, next),
        };
        let problem = problem.field(field);
        match invalid.index {
            Some(index) => problem.at(index),
            None => problem,
        }
    }
}

/// Spans carry their unit in documents.
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
        let conflict = |code, next| Self::new(StatusCode::CONFLICT, code, detail.clone(), next);
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::NotFound { .. } => task_not_found(detail),
            Error::Refused { refused, .. } => match refused {
                Refused::Ended { .. } => conflict("task_ended", "retry it: that makes a new task like it"),
                Refused::NotEnded { .. } => conflict("task_not_ended", "cancel it first, or wait"),
                _ => conflict("not_allowed", "look at the task: its state does not allow it"),
            },
            // Not 5xx: the server is well, and asking again changes nothing.
            Error::Quarantined { key, why } => task_unreadable(&key, &why),
            Error::Stale { .. } => conflict("stale", "read the task again"),
            Error::Conflict { .. } => conflict("version_conflict", "read it again and repeat the change"),
            Error::Deposed { .. } => conflict("deposed", "stop acting as leader"),
            Error::Unavailable { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail, "repeat the request")
            }
            Error::Damaged { .. } => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "store_damaged",
                detail,
                "check the store with `weaver store check`",
            ),
            Error::Rejected { next, .. } => {
                Self::new(StatusCode::BAD_GATEWAY, "rejected_upstream", detail, next)
            }
            _ => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                detail,
                "look at the server's log, and report this",
            ),
        }
    }
}

/// Refusals of handlers; those of layers answer by themselves, with the headers they need.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.status, refusal.code, refusal.detail, refusal.next)
    }
}

/// The server stops.
pub(crate) fn stopping() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        "the server is stopping",
        "ask another server, or this one when it is back",
    )
}

/// The task is there, and this server cannot read it.
fn task_unreadable(key: &TaskKey, why: &Unreadable) -> Problem {
    let detail = format!("task {key} cannot be read: {why}");
    Problem::new(StatusCode::CONFLICT, "task_unreadable", detail, why.next_step(key))
}

/// No such task.
pub(crate) fn task_not_found(detail: impl Into<String>) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "task_not_found",
        detail,
        "check the id and the namespace; finished tasks are purged after their retention",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_named_as_it_is_on_the_wire_and_its_member_too() {
        let invalid = Invalid::new("ttl", FieldProblem::Empty).at(3);
        let problem = Problem::from(invalid).to_wire();
        assert_eq!((problem.field.as_deref(), problem.index), (Some("ttl_ms"), Some(3)));
        assert!(problem.detail.starts_with("member 3 of the batch: ttl_ms"), "{}", problem.detail);
    }

    #[test]
    fn a_store_that_cannot_be_reached_asks_to_be_asked_again() {
        let response = Problem::from(Error::Unavailable { reason: "x".into() }).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }
}
