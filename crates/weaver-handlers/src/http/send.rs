//! Sending: redirects are followed by hand, so that each hop is checked like the first.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::resolve::{self, Vetting};
use super::{HttpPolicy, PolicyError, Request};

/// How long an idle connection is kept for the next task.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Why there is no answer.
pub(super) enum SendError {
    /// It is not allowed: no retry can help.
    Refused(String),
    /// It did not work this time.
    Failed(String),
}

/// An answer, and where it came from.
pub(super) struct Exchange {
    pub(super) response: Response,
    pub(super) redirects: u32,
}

/// A client that connects to vetted addresses only: with its own resolver, past any proxy (which would
/// resolve names by itself), following nothing and repeating nothing by itself.
pub(super) fn client(policy: &HttpPolicy) -> Result<Client, PolicyError> {
    // The process has one provider of cryptography; that another part chose first is just as well.
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
        // A machine without certificates can still call plain `http`; `https` will say what is missing.
        tracing::warn!(%error, "the system's certificates cannot be read: calls by https will fail");
        let client = builder().tls_certs_only([]).build();
        client.map_err(|error| PolicyError::new("http", format!("no HTTP client can be made: {error}")))
    })
}

/// A URL without what may be secret in it.
pub(super) fn place(url: &Url) -> String {
    let mut place = url.clone();
    place.set_query(None);
    place.set_fragment(None);
    // Both only fail for URLs that have no host, and those have no user either.
    let _ = place.set_username("");
    let _ = place.set_password(None);
    place.into()
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

/// An error with its causes, without the URL: its query may hold a secret.
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

/// Where an answer sends us on to, unless that is what the task expects.
fn redirect_target(request: &Request, response: &Response) -> Option<Result<Url, String>> {
    let status = response.status();
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    if !is_redirect || request.judged.is_success(status.as_u16()) || request.judged.is_fatal(status.as_u16())
    {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    let wrong = || format!("{status} with a `Location` that cannot be read");
    let target = location.to_str().map_err(|_| wrong());
    Some(target.and_then(|target| request.url.join(target).map_err(|_| wrong())))
}

fn follow(request: &mut Request, target: Url, status: StatusCode) {
    // As browsers do: these ask to fetch what there is now, not to send everything again.
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

/// What may be told to another origin. Any other field may be a credential, whatever it is called.
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
    fn a_place_shows_neither_query_nor_password() {
        let url = Url::parse("https://u:p@example.org:8443/a?token=s3cret#f").unwrap();
        assert_eq!(place(&url), "https://example.org:8443/a");
    }
}
