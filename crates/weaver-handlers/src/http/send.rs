//! Sending requests. Redirects are followed here, not by the client, so that each hop is checked like the
//! first.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::resolve::{self, Vetting};
use super::{HttpPolicy, PolicyError, Request};

/// How long an idle connection is pooled.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Why there is no response.
pub(super) enum SendError {
    /// The policy refuses it: not retried.
    Refused(String),
    /// A transient failure: retried.
    Failed(String),
}

/// The final response, after redirects.
pub(super) struct Exchange {
    pub(super) response: Response,
    pub(super) redirects: u32,
}

/// A client that connects to vetted addresses only: with our resolver, without a proxy (which would resolve
/// names itself), and without redirects or retries of its own.
pub(super) fn client(policy: &HttpPolicy) -> Result<Client, PolicyError> {
    // Per process: a provider that was installed before is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = || {
        Client::builder()
            .dns_resolver(Arc::new(Vetting::new(policy.allow_networks.clone())))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_idle_timeout(IDLE_MAX)
            .user_agent(concat!("weaver/", env!("CARGO_PKG_VERSION")))
    };
    builder().build().or_else(|error| {
        // A machine without certificates can still call plain `http`; `https` fails with a clear error.
        tracing::warn!(%error, "cannot read the system's CA certificates: https calls will fail");
        let client = builder().tls_certs_only([]).build();
        client.map_err(|error| PolicyError::new("http", format!("cannot create an HTTP client: {error}")))
    })
}

/// A URL without user name, password, query and fragment, which may be secret.
pub(super) fn redacted(url: &Url) -> String {
    let mut redacted = url.clone();
    redacted.set_query(None);
    redacted.set_fragment(None);
    // Both fail only for URLs without a host, which have no user either.
    let _ = redacted.set_username("");
    let _ = redacted.set_password(None);
    redacted.into()
}

/// Sends a request and follows its redirects.
pub(super) async fn send(
    client: &Client,
    policy: &HttpPolicy,
    mut request: Request,
) -> Result<Exchange, SendError> {
    let mut redirects = 0;
    loop {
        resolve::check(&request.url, &policy.allow_networks).map_err(SendError::Refused)?;
        let response = hop(client, &request).await?;
        let Some(target) = redirect_target(&request, &response) else {
            return Ok(Exchange { response, redirects });
        };
        if redirects == policy.redirects_max {
            return Err(SendError::Failed(format!("more than {redirects} redirects")));
        }
        redirects += 1;
        let target = target.map_err(SendError::Failed)?;
        follow(&mut request, target, response.status());
    }
}

async fn hop(client: &Client, request: &Request) -> Result<Response, SendError> {
    let mut builder =
        client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
    if let Some(body) = &request.body {
        builder = builder.body(body.clone());
    }
    builder.send().await.map_err(|error| match resolve::refused(&error) {
        Some(refused) => SendError::Refused(refused.to_string()),
        None => SendError::Failed(describe(error)),
    })
}

/// An error with its causes, without the URL: its query may contain a secret.
pub(super) fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The target of a redirect, unless its status is one that the task expects.
fn redirect_target(request: &Request, response: &Response) -> Option<Result<Url, String>> {
    let status = response.status();
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    if !is_redirect
        || request.status_rules.is_success(status.as_u16())
        || request.status_rules.is_fatal(status.as_u16())
    {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    let wrong = || format!("{status} with an invalid `Location`");
    let target = location.to_str().map_err(|_| wrong());
    Some(target.and_then(|target| request.url.join(target).map_err(|_| wrong())))
}

fn follow(request: &mut Request, target: Url, status: StatusCode) {
    // As browsers do: these statuses turn the request into a GET.
    let becomes_get = match status.as_u16() {
        303 => request.method != Method::HEAD,
        301 | 302 => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        request.method = Method::GET;
        request.body = None;
        request.headers.remove(CONTENT_TYPE);
        request.headers.remove(CONTENT_LENGTH);
    }
    if request.url.origin() != target.origin() {
        keep_harmless(&mut request.headers);
    }
    request.url = target;
}

/// Keeps the headers that are safe to send to another origin. Any other may be a credential.
fn keep_harmless(headers: &mut HeaderMap) {
    const HARMLESS: [&str; 5] =
        ["accept", "accept-language", "content-type", "content-language", "user-agent"];
    let others: Vec<_> = headers.keys().filter(|name| !HARMLESS.contains(&name.as_str())).cloned().collect();
    for name in others {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redacted_url_has_neither_query_nor_password() {
        let url = Url::parse("https://u:p@example.org:8443/a?token=s3cret#f").unwrap();
        assert_eq!(redacted(&url), "https://example.org:8443/a");
    }
}
