//! Cross-site requests (CSRF) and DNS rebinding.
//!
//! A page of another site, open in the user's browser, can send requests to a server on this machine. Every
//! request that such a page can send without CORS is refused, and no response has CORS headers.
//!
//! | attack | defence |
//! |---|---|
//! | DNS rebinding: the attacker's name resolves to this machine | `Host` must be an allowed host: 421 |
//! | `fetch` or a form from another site, or from another port of this machine | `Origin` must be this server, and `Sec-Fetch-Site` same-origin: 403 |
//! | a form, or `fetch` without preflight | a body must be `application/json`, which needs a preflight: 415 |
//! | frames, `<script src>`, `<img src>` | response headers forbid embedding |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::guard::Guard;
use super::refusal::Refusal;

const RESPONSE_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// HSTS for a year, without subdomains: those may be other servers.
const STRICT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The layer that refuses cross-site requests to the API. See [`protect`](super::protect).
pub async fn refuse_foreign_pages(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let is_strict = check_host(&guard, &request).is_ok_and(|authority| guard.is_strict(authority.host));
    let response = match check(&guard, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    with_headers(response, is_strict)
}

/// The same for dashboard pages, whose forms are not JSON: they must send an `Origin` of this server.
pub async fn refuse_foreign_forms(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let is_strict = check_host(&guard, &request).is_ok_and(|authority| guard.is_strict(authority.host));
    let response = match check_page(&guard, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    with_headers(response, is_strict)
}

fn with_headers(mut response: Response, is_strict: bool) -> Response {
    for (name, value) in RESPONSE_HEADERS {
        response.headers_mut().insert(name, value);
    }
    if is_strict {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, STRICT);
    }
    response
}

fn check_page(guard: &Guard, request: &Request) -> Result<(), Refusal> {
    let host = check_host(guard, request)?;
    check_origin(guard, request.headers(), host)?;
    if is_link(request.method(), request.headers()) {
        return Ok(());
    }
    check_fetch_site(request.headers())?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Every browser sends `Origin` with a form; other clients use the API.
    if is_read || request.headers().contains_key(header::ORIGIN) { Ok(()) } else { Err(foreign_page()) }
}

fn check(guard: &Guard, request: &Request) -> Result<(), Refusal> {
    let host = check_host(guard, request)?;
    check_origin(guard, request.headers(), host)?;
    // Links from other sites work: the user sees the response, the linking page does not.
    if !is_link(request.method(), request.headers()) {
        check_fetch_site(request.headers())?;
    }
    check_content_type(request)
}

fn check_host<'a>(guard: &Guard, request: &'a Request) -> Result<Authority<'a>, Refusal> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    let text = match (first, second) {
        (Some(host), None) => host.to_str().ok(),
        (Some(_), Some(_)) => None,
        // HTTP/2 has it here.
        (None, _) => request.uri().authority().map(|authority| authority.as_str()),
    };
    let named = request.uri().authority().map(|authority| authority.as_str());
    let agrees = |text: &&str| named.is_none_or(|named| named.eq_ignore_ascii_case(text));
    let Some(host) = text.filter(agrees).and_then(Authority::parse) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "host_invalid",
            "the request does not name exactly one host",
            "send one `Host` header with the name or address of this server",
        ));
    };
    if guard.answers_to(host.host) {
        return Ok(host);
    }
    Err(Refusal::new(
        StatusCode::MISDIRECTED_REQUEST,
        "host_not_allowed",
        "the `Host` header is not an allowed host of this server",
        "use 127.0.0.1 or localhost, or add the name to the server's allowed hosts",
    ))
}

/// Browsers send `Origin` with every request that could change something; other clients do not send it.
fn check_origin(guard: &Guard, headers: &HeaderMap, host: Authority<'_>) -> Result<(), Refusal> {
    let is_ours = |origin: &HeaderValue| {
        let Some((scheme, authority)) = origin.to_str().ok().and_then(|text| text.split_once("://")) else {
            return false; // `null`, too: sandboxed frames and files.
        };
        let default_port = if scheme == "https" { 443 } else { 80 };
        // The port must match too: another program on this machine is another origin.
        Authority::parse(authority).is_some_and(|origin| {
            guard.serves_scheme(scheme)
                && origin.host.is(host.host)
                && origin.port.unwrap_or(default_port) == host.port.unwrap_or(default_port)
        })
    };
    if headers.get_all(header::ORIGIN).iter().all(is_ours) { Ok(()) } else { Err(foreign_page()) }
}

/// Browsers set `Sec-Fetch-Site`, and pages cannot change it.
pub(super) fn check_fetch_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_ours = |site: &HeaderValue| site == "same-origin" || site == "none";
    if headers.get_all("sec-fetch-site").iter().all(is_ours) { Ok(()) } else { Err(foreign_page()) }
}

fn is_link(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name, value| headers.get(name).is_some_and(|found| found == value);
    method == Method::GET && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

fn foreign_page() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "cross_site",
        "cross-site request refused",
        "call the API from a program, or from this server's own pages",
    )
}

fn check_content_type(request: &Request) -> Result<(), Refusal> {
    let mut types = request.headers().get_all(header::CONTENT_TYPE).iter().peekable();
    let is_bare = types.peek().is_none() && request.body().is_end_stream();
    // Also checked without a body: a form without fields is still a form.
    let is_one_json = match (types.next(), types.next()) {
        (Some(only), None) => is_json(only),
        _ => false,
    };
    if is_bare || is_one_json {
        return Ok(());
    }
    let json = HeaderValue::from_static("application/json");
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "content_type_not_json",
        "the content type of the body is not application/json",
        "send `Content-Type: application/json`",
    )
    .with(header::ACCEPT, json))
}

fn is_json(value: &HeaderValue) -> bool {
    let essence = value.to_str().ok().and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// A host with or without a port, as `Host` and `Origin` write it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Authority<'a> {
    pub(super) host: HostName<'a>,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum HostName<'a> {
    Address(IpAddr),
    Name(&'a str),
}

impl HostName<'_> {
    fn is(self, other: HostName<'_>) -> bool {
        match (self, other) {
            (Self::Address(one), HostName::Address(two)) => one == two,
            (Self::Name(one), HostName::Name(two)) => one.eq_ignore_ascii_case(two),
            _ => false,
        }
    }
}

impl<'a> Authority<'a> {
    /// Strict: user names, unusual spellings of addresses and other characters are refused.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                (HostName::Address(address.parse::<Ipv6Addr>().ok()?.into()), rest)
            }
            None => {
                let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
                if name.is_empty() || !name.bytes().all(is_plain) {
                    return None;
                }
                let address = name.parse::<Ipv4Addr>().map(|address| HostName::Address(address.into()));
                (address.unwrap_or(HostName::Name(name)), rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            None if rest.is_empty() => None,
            _ => return None,
        };
        Some(Self { host, port })
    }
}
