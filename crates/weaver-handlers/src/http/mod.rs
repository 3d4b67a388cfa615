//! `http`: a task that calls a URL.
//!
//! ```text
//! payload ─▶ request ─▶ send: one hop at a time, each to a vetted address
//!         ─▶ response: outcome and bounded result
//! ```

mod request;
mod resolve;
mod response;
mod send;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderName;
use serde::{Deserialize, Serialize};
use weaver_core::clock::Clock;
use weaver_core::name::TaskType;
use weaver_core::network::Network;
use weaver_core::outcome::Outcome;
use weaver_runtime::{Ctx, TaskHandler};

use super::{HTTP_TASK_TYPE, PolicyError};
pub use request::HttpTask;
use request::Request;

/// The largest body of a result: in hex it still fits a record.
const BODY_MAX_BYTES: usize = 24 * 1024;
/// The most header fields of a result.
const RESPONSE_HEADERS_MAX: usize = 16;

/// The operator's policy for `http` tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpPolicy {
    /// Internal networks that tasks may call. Default: none.
    pub allow_networks: Vec<Network>,
    /// The most redirects that are followed. Default: 5.
    pub redirects_max: u32,
    /// The default timeout of a call, including redirects. Default: 30 s.
    pub timeout_ms: u64,
    /// The longest timeout of a task. Default: 10 min.
    pub timeout_max_ms: u64,
    /// How much of the response's body the result keeps. Default: 16 KiB; at most 24 KiB.
    pub body_max_bytes: usize,
    /// The response headers that the result keeps; at most 16.
    pub response_headers: Vec<String>,
    /// The longest `Retry-After` that is respected. Default: 1 day.
    pub retry_after_max_ms: u64,
}

impl Default for HttpPolicy {
    fn default() -> Self {
        let kept = ["content-type", "etag", "last-modified", "location", "retry-after", "x-request-id"];
        Self {
            allow_networks: Vec::new(),
            redirects_max: 5,
            timeout_ms: 30_000,
            timeout_max_ms: 600_000,
            body_max_bytes: 16 * 1024,
            response_headers: kept.map(str::to_owned).to_vec(),
            retry_after_max_ms: 24 * 3600 * 1000,
        }
    }
}

/// The handler of `http` tasks.
pub struct HttpHandler {
    task_type: TaskType,
    clock: Arc<dyn Clock>,
    client: reqwest::Client,
    policy: HttpPolicy,
    kept_headers: Vec<HeaderName>,
}

impl HttpHandler {
    /// Fails if the policy is invalid.
    pub fn new(policy: HttpPolicy, clock: Arc<dyn Clock>) -> Result<Self, PolicyError> {
        if policy.body_max_bytes > BODY_MAX_BYTES {
            let problem = format!("{} exceeds the maximum of {BODY_MAX_BYTES}", policy.body_max_bytes);
            return Err(PolicyError::new("http.body_max_bytes", problem));
        }
        if policy.response_headers.len() > RESPONSE_HEADERS_MAX {
            let problem = format!("more than {RESPONSE_HEADERS_MAX} header fields");
            return Err(PolicyError::new("http.response_headers", problem));
        }
        let name = |name: &String| {
            let wrong =
                |_| PolicyError::new("http.response_headers", format!("`{name}` is not a header field"));
            HeaderName::from_bytes(name.as_bytes()).map_err(wrong)
        };
        let kept_headers = policy.response_headers.iter().map(name).collect::<Result<_, _>>()?;
        let client = send::client(&policy)?;
        let task_type = TaskType::new(HTTP_TASK_TYPE).expect("it is a name");
        Ok(Self { task_type, clock, client, policy, kept_headers })
    }

    async fn call(&self, request: Request, ctx: &Ctx) -> Outcome {
        let (method, url) = (request.method.clone(), send::redacted(&request.url));
        let status_rules = request.status_rules.clone();
        let exchange = match send::send(&self.client, &self.policy, request).await {
            Ok(exchange) => exchange,
            Err(send::SendError::Refused(why)) => return Outcome::fatal(format!("{method} {url}: {why}")),
            Err(send::SendError::Failed(why)) => return Outcome::failed(format!("{method} {url}: {why}")),
        };
        let status = exchange.response.status();
        ctx.log(format!("{method} {url}: {status} after {} redirects", exchange.redirects));
        let what = format!("{method} {url}");
        response::outcome(exchange, &what, &status_rules, &self.policy, &self.kept_headers, self.clock.now())
            .await
    }
}

#[async_trait]
impl TaskHandler for HttpHandler {
    fn task_type(&self) -> &TaskType {
        &self.task_type
    }

    async fn execute(&self, _payload: Bytes, ctx: Ctx) -> Outcome {
        let request = match ctx.record().spec.envelope.decode::<HttpTask>() {
            Ok(task) => Request::new(task, &self.policy),
            Err(invalid) => return Outcome::undecodable(&invalid),
        };
        let request = match request {
            Ok(request) => request,
            Err(problem) => return Outcome::fatal(problem),
        };
        let timeout = request.timeout;
        let late = Outcome::failed(format!(
            "{} {}: no complete response within {} ms",
            request.method,
            send::redacted(&request.url),
            timeout.as_millis()
        ));
        let deadline = self.clock.monotonic().saturating_add(timeout);
        tokio::select! {
            biased;
            outcome = self.call(request, &ctx) => outcome,
            () = ctx.cancelled() => Outcome::failed("stopped before the response was complete"),
            () = self.clock.sleep_until(deadline) => late,
        }
    }
}

impl std::fmt::Debug for HttpHandler {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HttpHandler").field("policy", &self.policy).finish_non_exhaustive()
    }
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}
