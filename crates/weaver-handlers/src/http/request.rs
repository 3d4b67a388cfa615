//! From a payload to a request, with all checks that are possible before sending.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;

use super::{HttpPolicy, milliseconds};

/// The payload of an `http` task.
///
/// No `Debug`: header fields carry secrets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTask {
    /// An `http` or `https` URL without user name and password.
    pub url: String,
    /// Default: `GET`, or `POST` with a body. `CONNECT` and `TRACE` are refused.
    #[serde(default)]
    pub method: Option<String>,
    /// Header fields, except those that the client sets, such as `Host`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A string is sent unchanged, any other value as JSON.
    #[serde(default)]
    pub body: Option<serde_json::Value>,
    /// The timeout of the whole call, including redirects. Default: the policy's.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Statuses that fail the task permanently, without a retry.
    #[serde(default)]
    pub fatal_statuses: Vec<u16>,
    /// Statuses that are a success. Default: 200 to 299. An expected redirect is not followed.
    #[serde(default)]
    pub expect: Vec<u16>,
}

pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Duration,
    pub(super) status_rules: StatusRules,
}

/// Which statuses are a success or fatal, by the task.
#[derive(Clone)]
pub(super) struct StatusRules {
    fatal: Vec<u16>,
    expected: Vec<u16>,
}

impl StatusRules {
    pub(super) fn is_success(&self, status: u16) -> bool {
        if self.expected.is_empty() { (200..300).contains(&status) } else { self.expected.contains(&status) }
    }

    pub(super) fn is_fatal(&self, status: u16) -> bool {
        self.fatal.contains(&status)
    }
}

impl Request {
    /// An error is permanent: a retry cannot fix the payload.
    pub(super) fn new(task: HttpTask, policy: &HttpPolicy) -> Result<Self, String> {
        let url = Url::parse(&task.url).map_err(|error| format!("`url` is invalid: {error}"))?;
        let method = match task.method {
            Some(name) => method(&name)?,
            None if task.body.is_some() => Method::POST,
            None => Method::GET,
        };
        let mut headers = headers(&task.headers)?;
        let body = task.body.map(|body| encode(body, &mut headers)).transpose()?;
        let timeout_ms = task.timeout_ms.unwrap_or(policy.timeout_ms);
        if timeout_ms == 0 || timeout_ms > policy.timeout_max_ms {
            return Err(format!(
                "`timeout_ms` is {timeout_ms}: it must be from 1 to {}",
                policy.timeout_max_ms
            ));
        }
        let status_rules = StatusRules { fatal: task.fatal_statuses, expected: task.expect };
        let wrong = status_rules
            .fatal
            .iter()
            .chain(&status_rules.expected)
            .find(|status| !(100..600).contains(*status));
        if let Some(status) = wrong {
            return Err(format!("{status} is not an HTTP status: use 100 to 599"));
        }
        Ok(Self { method, url, headers, body, timeout: milliseconds(timeout_ms), status_rules })
    }
}

fn method(name: &str) -> Result<Method, String> {
    let upper = name.to_ascii_uppercase();
    match Method::from_bytes(upper.as_bytes()) {
        // `CONNECT` opens a tunnel to an unvetted address; `TRACE` echoes header fields.
        Ok(method) if method != Method::CONNECT && method != Method::TRACE => Ok(method),
        _ => Err(format!("`method` is `{name}`: use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS")),
    }
}

/// Header fields for message framing and routing: only the client may set them.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let field = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` in `headers` is not a header field"))?;
        if RESERVED.contains(&field.as_str()) {
            return Err(format!("`{name}` in `headers` is set by the client: remove it"));
        }
        // The message does not contain the value, which may be a secret.
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of `{name}` in `headers` contains invalid characters"))?;
        value.set_sensitive(true);
        headers.append(field, value);
    }
    Ok(headers)
}

fn encode(body: serde_json::Value, headers: &mut HeaderMap) -> Result<Bytes, String> {
    let (bytes, content_type) = match body {
        serde_json::Value::String(text) => (text.into(), "text/plain; charset=utf-8"),
        json => {
            let bytes =
                serde_json::to_vec(&json).map_err(|error| format!("cannot encode `body`: {error}"))?;
            (bytes.into(), "application/json")
        }
    };
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(payload: serde_json::Value) -> Result<Request, String> {
        Request::new(serde_json::from_value(payload).unwrap(), &HttpPolicy::default())
    }

    #[test]
    fn a_body_makes_the_request_a_post_and_sets_its_content_type() {
        let json = request(serde_json::json!({"url": "https://example.org/", "body": {"a": 1}})).unwrap();
        assert_eq!((json.method, json.body.unwrap()), (Method::POST, Bytes::from_static(b"{\"a\":1}")));
        assert_eq!(json.headers[CONTENT_TYPE], "application/json");
        let headers = serde_json::json!({"Content-Type": "text/csv"});
        let text = serde_json::json!({"url": "https://example.org/", "body": "a,b", "headers": headers});
        let text = request(text).unwrap();
        assert_eq!(
            (text.body.unwrap(), &text.headers[CONTENT_TYPE]),
            (Bytes::from_static(b"a,b"), &"text/csv".parse().unwrap())
        );
    }

    #[test]
    fn an_invalid_request_is_refused_before_it_is_sent() {
        for (wrong, said) in [
            (serde_json::json!({"url": "no url"}), "`url`"),
            (serde_json::json!({"url": "http://h/", "method": "CONNECT"}), "`method`"),
            (serde_json::json!({"url": "http://h/", "headers": {"Host": "x"}}), "`Host`"),
            (serde_json::json!({"url": "http://h/", "headers": {"a b": "x"}}), "`a b`"),
            (serde_json::json!({"url": "http://h/", "timeout_ms": 0}), "`timeout_ms`"),
            (serde_json::json!({"url": "http://h/", "fatal_statuses": [42]}), "42"),
        ] {
            let problem = request(wrong).err().expect("it is refused");
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn the_message_about_an_invalid_header_does_not_contain_its_value() {
        let payload = serde_json::json!({"url": "http://h/", "headers": {"X-Token": "s3cret\n"}});
        assert!(!request(payload).err().unwrap().contains("s3cret"));
    }
}
