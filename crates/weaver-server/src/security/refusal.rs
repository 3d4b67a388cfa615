//! Refused requests, each with its reason and a hint.

use std::borrow::Cow;
use std::fmt;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weaver_api as wire;

/// A refused request. Its response is a problem document (RFC 9457).
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The response's status: 400 to 503.
    pub status: StatusCode,
    /// The stable code that programs match on, such as `token_expired`.
    pub code: &'static str,
    /// The reason. It never contains a token.
    pub detail: Cow<'static, str>,
    /// What to do about it.
    pub hint: Cow<'static, str>,
    /// A header that the status requires, such as `WWW-Authenticate`.
    // Boxed, because refusals travel in `Result`s and few have one.
    pub header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, detail: detail.into(), hint: hint.into(), header: None }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({}): {}", self.detail, self.code, self.hint)
    }
}

impl std::error::Error for Refusal {}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = wire::Problem {
            kind: format!("urn:weaver:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or(self.code).to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail.into_owned(),
            hint: self.hint.into_owned(),
            field: None,
            index: None,
        };
        let mut response = (self.status, Json(body)).into_response();
        if let Some((name, value)) = self.header.map(|header| *header) {
            response.headers_mut().insert(name, value);
        }
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        response
    }
}
