//! From a response to an outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderName, RETRY_AFTER};
use serde::Serialize;
use weaver_core::bytes_text;
use weaver_core::outcome::{Outcome, RESULT_MAX_BYTES, Retry};
use weaver_core::time::Timestamp;

use super::request::StatusRules;
use super::send::{Exchange, describe};
use super::{HttpPolicy, milliseconds};

/// The limit of a body in an error message.
const SHOWN_BYTES: usize = 1024;
/// The limit of a header value in a result.
const HEADER_MAX_BYTES: usize = 1024;

/// The result of a call that succeeded.
#[derive(Serialize)]
struct StoredResult {
    status: u16,
    headers: BTreeMap<String, String>,
    /// Text, or hex digits under `hex`.
    #[serde(with = "bytes_text")]
    body: Bytes,
    body_cut: bool,
    redirects: u32,
}

/// Reads the response and decides the outcome by its status.
pub(super) async fn outcome(
    exchange: Exchange,
    what: &str,
    status_rules: &StatusRules,
    policy: &HttpPolicy,
    kept_headers: &[HeaderName],
    now: Timestamp,
) -> Outcome {
    let Exchange { response, redirects } = exchange;
    let status = response.status();
    let headers = response.headers().clone();
    let is_success = status_rules.is_success(status.as_u16());
    let max_bytes = if is_success { policy.body_max_bytes } else { SHOWN_BYTES };
    let body = match read(response, max_bytes).await {
        Ok(body) => body,
        Err(error) if is_success => {
            return Outcome::failed(format!("{what}: {status}, but reading the body failed: {error}"));
        }
        // The status is enough for the error.
        Err(_) => Body::default(),
    };
    if is_success {
        let headers = kept(&headers, kept_headers);
        let Body { bytes, is_cut } = body;
        return succeeded(StoredResult {
            status: status.as_u16(),
            headers,
            body: bytes,
            body_cut: is_cut,
            redirects,
        });
    }
    let shown = String::from_utf8_lossy(&body.bytes);
    let error = if shown.trim().is_empty() {
        format!("{what}: {status}")
    } else {
        format!("{what}: {status}: {}", shown.trim())
    };
    if status_rules.is_fatal(status.as_u16()) {
        return Outcome::fatal(error);
    }
    let waits = matches!(status.as_u16(), 429 | 503);
    match waits.then(|| retry_after(&headers, now)).flatten() {
        Some(delay) => {
            let delay = delay.min(milliseconds(policy.retry_after_max_ms));
            Outcome::Failed { error: Arc::from(error), retry: Retry::After(delay) }
        }
        None => Outcome::failed(error),
    }
}

#[derive(Default)]
struct Body {
    bytes: Bytes,
    is_cut: bool,
}

/// Reads up to `max_bytes` of a body; the rest stays unread, and the connection is closed.
async fn read(response: reqwest::Response, max_bytes: usize) -> Result<Body, String> {
    let mut bytes = BytesMut::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(describe)?;
        let room = max_bytes - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Body { bytes: whole(bytes), is_cut: true });
        }
    }
    Ok(Body { bytes: bytes.freeze(), is_cut: false })
}

/// Drops an incomplete character at the end, so that truncated text is still UTF-8.
fn whole(mut bytes: BytesMut) -> Bytes {
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    bytes.freeze()
}

fn kept(headers: &HeaderMap, names: &[HeaderName]) -> BTreeMap<String, String> {
    let present = names.iter().filter_map(|name| {
        let mut value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        value.truncate(value.floor_char_boundary(HEADER_MAX_BYTES));
        Some((name.to_string(), value))
    });
    present.collect()
}

fn succeeded(mut kept: StoredResult) -> Outcome {
    let mut json = encode(&kept);
    while json.as_ref().is_ok_and(|json| json.len() > RESULT_MAX_BYTES) {
        // Control characters take six bytes in JSON: a body full of them is truncated further.
        let half = kept.body.len() / 2;
        kept.body = whole(BytesMut::from(&kept.body[..half]));
        kept.body_cut = true;
        json = encode(&kept);
    }
    match json {
        Ok(json) => Outcome::Succeeded { result: Some(json.into()) },
        Err(error) => Outcome::fatal(format!("cannot encode the result as JSON: {error}")),
    }
}

fn encode(kept: &StoredResult) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(kept)
}

/// `Retry-After`: a number of seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow means "very long", which the policy limits.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let micros = date.as_microsecond().saturating_sub(now.as_micros());
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        // 2026-01-01T00:00:00Z
        retry_after(&headers, Timestamp::from_micros(1_767_225_600_000_000))
    }

    #[test]
    fn retry_after_is_parsed_as_seconds_and_as_a_date() {
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Thu, 01 Jan 2026 00:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(after("Wed, 31 Dec 2025 23:59:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
        assert_eq!(after(""), None);
    }

    #[test]
    fn a_body_of_control_characters_still_fits_a_record() {
        let kept = StoredResult {
            status: 200,
            headers: BTreeMap::new(),
            body: Bytes::from(vec![1; 24 * 1024]),
            body_cut: false,
            redirects: 0,
        };
        let Outcome::Succeeded { result: Some(result) } = succeeded(kept) else { panic!("it succeeds") };
        assert!(result.len() <= RESULT_MAX_BYTES);
    }
}
