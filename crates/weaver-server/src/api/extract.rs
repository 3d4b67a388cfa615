//! Extractors: what cannot be parsed is answered with a problem that names the field.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use weaver_api::{NotStrict, StrictProblem, check_strict};

use super::{AppState, bodies};
use crate::problem::Problem;

/// A JSON body of at most `body_max_bytes`.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        if !content_type.is_some_and(|value| value.to_str().is_ok_and(is_json)) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content_type_not_json",
                "the content type of the body is not application/json",
                "send JSON with the header `content-type: application/json`",
            ));
        }
        let bytes = bodies::read(state, request, state.limits.body_max_bytes).await?;
        parse(&bytes).map(Self)
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Parses JSON. What fails is parsed once more, by a slower parser that reports the path of the field.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_strict(bytes).map_err(|found| not_strict(&found))?;
    let error = match serde_json::from_slice::<T>(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if !error.is_data() {
        return Err(invalid_json(&error));
    }
    let mut slow = serde_json::Deserializer::from_slice(bytes);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut slow) {
        Err(error) => error.path().to_string(),
        Ok(_) => ".".to_owned(),
    };
    let problem = Problem::bad_request(
        "invalid_body",
        if path == "." { error.to_string() } else { format!("{path}: {error}") },
        "correct the field; see /api/openapi.json for the body",
    );
    Err(if path == "." { problem } else { problem.field(path) })
}

/// Valid JSON that parsers disagree on, or crash on.
fn not_strict(found: &NotStrict) -> Problem {
    let (code, hint) = match found.problem {
        StrictProblem::TooDeep => {
            ("json_too_deep", "send less nested JSON, or a reference to where it is stored")
        }
        StrictProblem::DuplicateKey(_) => ("json_duplicate_key", "send every key of an object once"),
        StrictProblem::LoneSurrogate => ("json_lone_surrogate", "send strings that are valid Unicode"),
    };
    let place = if found.path.is_empty() { "the body" } else { &found.path };
    let problem = Problem::bad_request(code, format!("{place}: {found}"), hint);
    if found.path.is_empty() { problem } else { problem.field(found.path.clone()) }
}

fn invalid_json(error: &serde_json::Error) -> Problem {
    Problem::bad_request("invalid_json", format!("the body is not JSON: {error}"), "send valid JSON")
}

/// Query parameters; unknown values are a 400 with `invalid_query`.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Query::try_from_uri(&parts.uri).map(|Query(value)| Self(value)).map_err(|rejection| {
            Problem::bad_request(
                "invalid_query",
                rejection.body_text(),
                "correct the parameter; see /api/openapi.json for the parameters",
            )
        })
    }
}

/// The single path parameter of a route.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Path::from_request_parts(parts, state).await.map(|Path(text)| Self(text)).map_err(|rejection| {
            Problem::bad_request("invalid_path", rejection.body_text(), "percent-encode UTF-8 in paths")
        })
    }
}
