//! One request and its response.

use std::sync::Once;
use std::time::Duration;

use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_api::Problem;

use crate::client::{ClientOptions, Proxy, SOCKET_SCHEME};
use crate::error::ClientError;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a call that does not wait on the server.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A server's address, and what requests to it need.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: Url,
    /// The address as it was given, for messages: a socket's is not a URL.
    place: String,
    /// Whether a token may be sent: not over a network where others can read it.
    is_private: bool,
    token: Option<String>,
}

/// Never shows the token.
impl std::fmt::Debug for Http {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Http").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Http {
    pub(crate) fn new(address: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        use_ring();
        let refuse = |reason: String| ClientError::Address { url: address.to_owned(), reason };
        let socket = address.strip_prefix(SOCKET_SCHEME);
        // A server accepts the names of its own machine as the Host of a socket request.
        let url = if socket.is_some() { "http://localhost/" } else { address };
        let mut base = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(refuse(format!("`{}` is not http or https", base.scheme())));
        }
        // Without a trailing slash, joining would replace the last segment.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let is_private = options.insecure_http || base.scheme() == "https" || is_loopback(&base);
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect could carry the token to another host; the server sends none.
            .redirect(reqwest::redirect::Policy::none());
        let builder = match socket {
            Some(path) if !path.starts_with('/') => {
                return Err(refuse(format!("a socket needs its absolute path: {SOCKET_SCHEME}/run/…")));
            }
            #[cfg(unix)]
            Some(path) => builder.no_proxy().unix_socket(std::path::Path::new(path)),
            #[cfg(not(unix))]
            Some(_) => return Err(refuse("this system has no Unix sockets".to_owned())),
            None => through(builder, &options.proxy).map_err(refuse)?,
        };
        let client = builder.build().map_err(|error| refuse(error.to_string()))?;
        Ok(Self { client, base, place: address.to_owned(), is_private, token: None })
    }

    pub(crate) fn with_token(self, token: String) -> Result<Self, ClientError> {
        if !self.is_private {
            return Err(ClientError::Insecure { url: self.place });
        }
        Ok(Self { token: Some(token), ..self })
    }

    pub(crate) async fn get<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::GET, segments, query)?.timeout(timeout);
        self.call(request).await
    }

    pub(crate) async fn post_bare<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::POST, segments, query)?.timeout(CALL_TIMEOUT);
        self.call(request).await
    }

    pub(crate) async fn delete<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::DELETE, segments, query)?.timeout(CALL_TIMEOUT);
        self.call(request).await
    }

    /// Deletes a resource that still has this `ETag`.
    pub(crate) async fn delete_if<Q: Serialize, T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Q,
        tag: &str,
    ) -> Result<T, ClientError> {
        let request = self.request(Method::DELETE, segments, query)?.timeout(CALL_TIMEOUT);
        self.call(request.header("if-match", format!("\"{tag}\""))).await
    }

    /// Sends a JSON body.
    pub(crate) async fn send<Q: Serialize, B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &Q,
        body: &B,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let request = self.request(method, segments, query)?.json(body).timeout(timeout);
        self.call(request).await
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
        let invalid = |reason: String| ClientError::Address { url: self.place.clone(), reason };
        let pairs = serde_json::to_value(query).map_err(|error| invalid(error.to_string()))?;
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

    async fn call<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ClientError> {
        let response = self.respond(request).await?;
        let status = response.status();
        let unexpected = |reason: String| self.unexpected(status, reason);
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        // No content reads as `null`, which is what `()` is.
        let body = if status == StatusCode::NO_CONTENT { b"null".as_slice() } else { &body };
        serde_json::from_slice(body).map_err(|error| unexpected(error.to_string()))
    }

    /// The response, if its status is a success.
    async fn respond(&self, request: reqwest::RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(ClientError::Refused(Box::new(problem))),
            Err(error) => Err(self.unexpected(status, error.to_string())),
        }
    }

    /// A response that is read as it arrives, without a timeout.
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
        // The innermost cause is the useful one: "connection refused", not "error sending request".
        let mut reason = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            reason = inner.to_string();
            cause = inner.source();
        }
        ClientError::Unreachable { url: self.place.clone(), reason }
    }

    fn unexpected(&self, status: StatusCode, reason: String) -> ClientError {
        ClientError::UnexpectedResponse { url: self.place.clone(), status: status.as_u16(), reason }
    }
}

/// A proxy sees plain requests and the tokens in them: one from the environment is used only on request.
fn through(builder: reqwest::ClientBuilder, proxy: &Proxy) -> Result<reqwest::ClientBuilder, String> {
    Ok(match proxy {
        Proxy::None => builder.no_proxy(),
        Proxy::Environment => builder,
        Proxy::Url(url) => {
            let proxy = reqwest::Proxy::all(url).map_err(|error| format!("the proxy `{url}`: {error}"))?;
            builder.no_proxy().proxy(proxy)
        }
    })
}

/// Whether requests to this address stay on this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    address.map_or(host == "localhost", |address| address.to_canonical().is_loopback())
}

/// Chooses ring for TLS, unless the program has chosen before (ADR-0021).
fn use_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_have_token(address: &str, options: &ClientOptions) -> bool {
        Http::new(address, options).expect("an address").with_token("wvr_x".to_owned()).is_ok()
    }

    #[test]
    fn a_token_is_sent_over_tls_or_on_this_machine_only() {
        let usual = ClientOptions::default();
        for address in [
            "http://127.0.0.1:7117",
            "http://localhost/",
            "http://[::1]:1",
            "https://jobs.example.org",
            "http://127.9.9.9",
            "http://[::ffff:127.0.0.1]",
            "unix:/run/weaver/7117.sock",
        ] {
            assert!(may_have_token(address, &usual), "{address}");
        }
        for address in [
            "http://10.0.0.1",
            "http://127.0.0.1@example.org",
            "http://localhost.example.org",
            "http://0.0.0.0",
            "http://jobs.example.org:7117",
        ] {
            assert!(!may_have_token(address, &usual), "{address}");
            assert!(may_have_token(
                address,
                &ClientOptions { insecure_http: true, ..ClientOptions::default() }
            ));
        }
    }

    #[test]
    fn a_socket_needs_its_absolute_path() {
        let error = Http::new("unix:weaver.sock", &ClientOptions::default()).expect_err("no path");
        assert!(error.to_string().contains("unix:/run/"), "{error}");
    }
}
