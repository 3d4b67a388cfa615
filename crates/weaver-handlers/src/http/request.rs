//! From a payload to a request: everything that can be checked before anything is sent.

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
    /// Where to: `http` or `https`, without a user name or password.
    pub url: String,
    /// `GET` if not given, `POST` if there is a body.
    #[serde(default)]
    pub method: Option<String>,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What to send: a text as it is, anything else as JSON.
    #[serde(default)]
    pub body: Option<serde_json::Value>,
    /// How long it may take in all; the policy's default if not given.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Statuses after which it makes no sense to try again.
    #[serde(default)]
    pub fatal_statuses: Vec<u16>,
    /// Statuses that are a success, instead of all from 200 to 299. A redirect that is expected is not
    /// followed.
    #[serde(default)]
    pub expect: Vec<u16>,
}

/// What to send, checked.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Duration,
    pub(super) judged: Judged,
}

/// How the task wants statuses to be judged.
#[derive(Clone)]
pub(super) struct Judged {
    fatal: Vec<u16>,
    expected: Vec<u16>,
}

impl Judged {
    pub(super) fn is_success(&self, status: u16) -> bool {
        if self.expected.is_empty() { (200..300).contains(&status) } else { self.expected.contains(&status) }
    }

    pub(super) fn is_fatal(&self, status: u16) -> bool {
        self.fatal.contains(&status)
    }
}

impl Request {
    /// Says what is wrong with a payload: no retry can mend it.
    pub(super) fn new(task: HttpTask, policy: &HttpPolicy) -> Result<Self, String> {
        let url = Url::parse(&task.url).map_err(|error| format!("`url` cannot be read: {error}"))?;
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
        let judged = Judged { fatal: task.fatal_statuses, expected: task.expect };
        let wrong = judged.fatal.iter().chain(&judged.expected).find(|status| !(100..600).contains(*status));
        if let Some(status) = wrong {
            return Err(format!("{status} is no HTTP status: they go from 100 to 599"));
        }
        Ok(Self { method, url, headers, body, timeout: milliseconds(timeout_ms), judged })
    }
}

fn method(name: &str) -> Result<Method, String> {
    let upper = name.to_ascii_uppercase();
    match Method::from_bytes(upper.as_bytes()) {
        // `CONNECT` makes a tunnel to somewhere nobody vetted; `TRACE` shows header fields that others hide.
        Ok(method) if method != Method::CONNECT && method != Method::TRACE => Ok(method),
        _ => Err(format!("`method` is `{name}`: use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS")),
    }
}

/// Those that say where a message ends, or whom it is for: only the client knows.
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
            .map_err(|_| format!("`{name}` in `headers` is no header field"))?;
        if RESERVED.contains(&field.as_str()) {
            return Err(format!("`{name}` in `headers` is set by the client itself: leave it out"));
        }
        // The value is not repeated: it may be a secret.
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of `{name}` in `headers` has characters that cannot be sent"))?;
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
                serde_json::to_vec(&json).map_err(|error| format!("`body` cannot be written: {error}"))?;
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
    fn a_body_makes_it_a_post_and_names_its_type() {
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
    fn what_could_never_be_sent_is_refused_before_it_is() {
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
    fn a_secret_is_not_repeated_when_its_header_is_refused() {
        let payload = serde_json::json!({"url": "http://h/", "headers": {"X-Token": "s3cret\n"}});
        assert!(!request(payload).err().unwrap().contains("s3cret"));
    }
}
