//! One request and its answer.

use std::sync::Once;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClientError;
use crate::wire::Problem;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take that does not wait for anything itself.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A server's address, and what is needed to talk to it.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    token: Option<String>,
}

/// Never shows the token.
impl std::fmt::Debug for Http {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Http").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Http {
    pub(crate) fn new(address: &str) -> Result<Self, ClientError> {
        use_ring();
        let refuse = |reason: String| ClientError::Address { url: address.to_owned(), reason };
        let mut base = Url::parse(address).map_err(|error| refuse(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(refuse(format!("`{}` is not http or https", base.scheme())));
        }
        // Joined paths replace what comes after the last slash.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A token must not follow a redirect to somebody else, and the server sends none.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self { client, base, token: None })
    }

    pub(crate) fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Asks, with what is asked for in the query.
    pub(crate) async fn get<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::GET, segments, query)?.timeout(timeout);
        self.answer(request).await
    }

    /// Changes something that needs no more than its path and query.
    pub(crate) async fn post_bare<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::POST, segments, query)?.timeout(CALL_TIMEOUT);
        self.answer(request).await
    }

    /// Removes something.
    pub(crate) async fn delete<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::DELETE, segments, query)?.timeout(CALL_TIMEOUT);
        self.answer(request).await
    }

    /// Sends a body and reads an answer.
    pub(crate) async fn send<Q: Serialize, B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &Q,
        body: &B,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let request = self.request(method, segments, query)?.json(body).timeout(timeout);
        self.answer(request).await
    }

    fn request<Q: Serialize>(
        &self,
        method: Method,
        segments: &[&str],
        query: &Q,
    ) -> Result<reqwest::RequestBuilder, ClientError> {
        let mut url = self.base.clone();
        // Segment by segment: a name with a slash or a question mark in it stays one segment.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let strange = |reason: String| ClientError::Address { url: self.base.to_string(), reason };
        let pairs = serde_json::to_value(query).map_err(|error| strange(error.to_string()))?;
        if let serde_json::Value::Object(pairs) = pairs {
            let mut query = url.query_pairs_mut();
            for (name, value) in pairs {
                match value {
                    serde_json::Value::Null => {}
                    serde_json::Value::String(text) => drop(query.append_pair(&name, &text)),
                    other => drop(query.append_pair(&name, &other.to_string())),
                }
            }
        }
        if url.query() == Some("") {
            url.set_query(None);
        }
        let request = self.client.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn answer<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ClientError> {
        let response = self.respond(request).await?;
        let status = response.status();
        let strange = |reason: String| self.strange(status, reason);
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        // No content reads as `null`, which is what `()` is.
        let body = if status == StatusCode::NO_CONTENT { b"null".as_slice() } else { &body };
        serde_json::from_slice(body).map_err(|error| strange(error.to_string()))
    }

    /// The response of a request that was not refused.
    async fn respond(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(ClientError::Refused(Box::new(problem))),
            Err(error) => Err(self.strange(status, error.to_string())),
        }
    }

    /// A stream of bytes, for as long as it lasts.
    pub(crate) async fn stream<Q: Serialize>(
        &self,
        segments: &[&str],
        query: &Q,
        last_event_id: Option<&str>,
    ) -> Result<Response, ClientError> {
        let mut request = self.request(Method::GET, segments, query)?;
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        self.respond(request).await
    }

    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        use std::error::Error as _;
        // The last cause is the one that says something: "connection refused", not "error sending request".
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            reason = inner.to_string();
            cause = inner.source();
        }
        ClientError::Unreachable { url: self.base.to_string(), reason }
    }

    fn strange(&self, status: StatusCode, reason: String) -> ClientError {
        ClientError::Strange { url: self.base.to_string(), status: status.as_u16(), reason }
    }
}

/// Chooses ring for TLS, unless the program has chosen before (ADR-0021).
fn use_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
