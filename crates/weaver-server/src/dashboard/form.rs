//! Form bodies and query strings: name/value pairs, where a name may repeat.

use std::convert::Infallible;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use url::form_urlencoded::{Serializer, parse};

use super::Pages;
use crate::problem::Problem;

/// The fields of a form or a query string. Empty values are dropped on parsing.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(parse(bytes).into_owned().filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(super) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let filled = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Self(filled.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Replaces every value of a field.
    pub(super) fn set(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|(found, _)| found != name);
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(found, _)| found == name).map(|(_, value)| value.clone()).collect()
    }

    /// The query string with one field replaced or, by `None`, removed.
    pub(super) fn with(&self, name: &str, value: Option<&str>) -> String {
        let kept = self.0.iter().filter(|(found, _)| found != name);
        let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
        encoded(kept.chain(value.map(|value| (name, value))))
    }
}

impl FromRequest<Pages> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, pages: &Pages) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, pages).await.map_err(|rejection| {
            Problem::new(
                rejection.status(),
                "form_unreadable",
                rejection.body_text(),
                "submit the form again",
            )
        })?;
        Ok(Self::parse(&bytes))
    }
}

/// Extracts the query string.
pub(super) struct Query(pub(super) Fields);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}

/// A URL-encoded query string.
pub(super) fn encoded<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// One percent-encoded path segment. (A plus sign is not a space there, unlike in a form.)
pub(super) fn path_part(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_a_round_trip_and_empty_ones_are_none() {
        let fields = Fields::parse(b"a=1&b=x%26y+z&a=2&empty=");
        assert_eq!((fields.get("b"), fields.get("empty")), (Some("x&y z"), None));
        assert_eq!(fields.all("a"), ["1", "2"]);
        assert_eq!(fields.with("a", Some("3")), "b=x%26y+z&a=3");
        assert_eq!(path_part("a b/<c>"), "a%20b%2F%3Cc%3E");
    }
}
