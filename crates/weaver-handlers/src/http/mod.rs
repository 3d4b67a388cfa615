//! `http`: a task that calls a URL.
//!
//! ```text
//! payload ─▶ request ─▶ send: one hop at a time, each to a vetted address
//!         ─▶ answer: outcome and bounded result
//! ```

mod answer;
mod request;
mod resolve;
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

/// The most of a body that a result can hold: written in hexadecimal digits it still fits a record.
const BODY_MAX_BYTES: usize = 24 * 1024;
/// The most header fields a result can hold.
const RESPONSE_HEADERS_MAX: usize = 16;

/// What the operator decided about calling URLs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpPolicy {
    /// Networks that may be called although they are not public. None.
    pub allow_networks: Vec<Network>,
    /// How many redirects are followed. 5.
    pub redirects_max: u32,
    /// How long a call may take in all, if the task does not say. 30 s.
    pub timeout_ms: u64,
    /// The longest a task may ask for. 10 min.
    pub timeout_max_ms: u64,
    /// How much of the answer's body is kept. 16 KiB; at most 24.
    pub body_max_bytes: usize,
    /// Which of the answer's header fields are kept.
    pub response_headers: Vec<String>,
    /// The longest `Retry-After` that is believed. 1 day.
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

/// Runs `http` tasks.
pub struct HttpHandler {
    task_type: TaskType,
    clock: Arc<dyn Clock>,
    client: reqwest::Client,
    policy: HttpPolicy,
    kept_headers: Vec<HeaderName>,
}

impl HttpHandler {
    /// A handler that does what the policy allows.
    pub fn new(policy: HttpPolicy, clock: Arc<dyn Clock>) -> Result<Self, PolicyError> {
        if policy.body_max_bytes > BODY_MAX_BYTES {
            let problem =
                format!("{} is more than a result can hold: {BODY_MAX_BYTES}", policy.body_max_bytes);
            return Err(PolicyError::new("http.body_max_bytes", problem));
        }
        if policy.response_headers.len() > RESPONSE_HEADERS_MAX {
            let problem = format!("a result can hold {RESPONSE_HEADERS_MAX} header fields");
            return Err(PolicyError::new("http.response_headers", problem));
        }
        let name = |name: &String| {
            let wrong = |_| PolicyError::new("http.response_headers", format!("`{name}` is no header field"));
            HeaderName::from_bytes(name.as_bytes()).map_err(wrong)
        };
        let kept_headers = policy.response_headers.iter().map(name).collect::<Result<_, _>>()?;
        let client = send::client(&policy)?;
        let task_type = TaskType::new(HTTP_TASK_TYPE).expect("it is a name");
        Ok(Self { task_type, clock, client, policy, kept_headers })
    }

    async fn call(&self, request: Request, ctx: &Ctx) -> Outcome {
        let (method, place) = (request.method.clone(), send::place(&request.url));
        let judged = request.judged.clone();
        let exchange = match send::send(&self.client, &self.policy, request).await {
            Ok(exchange) => exchange,
            Err(send::SendError::Refused(why)) => return Outcome::fatal(format!("{method} {place}: {why}")),
            Err(send::SendError::Failed(why)) => return Outcome::failed(format!("{method} {place}: {why}")),
        };
        let status = exchange.response.status();
        ctx.log(format!("{method} {place}: {status} after {} redirects", exchange.redirects));
        let what = format!("{method} {place}");
        answer::outcome(exchange, &what, &judged, &self.policy, &self.kept_headers, self.clock.now()).await
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
            "{} {}: no complete answer within {} ms",
            request.method,
            send::place(&request.url),
            timeout.as_millis()
        ));
        let deadline = self.clock.monotonic().saturating_add(timeout);
        tokio::select! {
            biased;
            outcome = self.call(request, &ctx) => outcome,
            () = ctx.cancelled() => Outcome::failed("told to stop before the answer was there"),
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
