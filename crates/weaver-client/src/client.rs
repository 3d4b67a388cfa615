//! The typed client: one method per route of [`weaver_api`].

use std::time::Duration;

use reqwest::Method;
use weaver_api as wire;

use crate::error::ClientError;
use crate::events::Events;
use crate::http::{CALL_TIMEOUT, Http};

type Result<T> = std::result::Result<T, ClientError>;

/// What a long poll may take beyond the wait it asked for.
const MARGIN: Duration = Duration::from_secs(15);
const API: [&str; 2] = ["api", "v1"];

/// The scheme of a server's Unix socket address; the absolute path follows.
pub const SOCKET_SCHEME: &str = "unix:";

/// How to reach a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// The proxy for all requests; none by default.
    pub proxy: Proxy,
    /// Whether to send a token over plain HTTP to another machine, where anyone on the network path can read
    /// it.
    pub insecure_http: bool,
}

/// A proxy between client and server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// No proxy, whatever the environment says.
    #[default]
    None,
    /// As `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say.
    Environment,
    /// The proxy at this URL.
    Url(String),
}

/// A client of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) http: Http,
}

impl Client {
    /// A client of the server at an address like `https://jobs.example.org`, `http://127.0.0.1:7117` or
    /// `unix:/run/weaver/7117.sock`; without a proxy.
    pub fn new(address: &str) -> Result<Self> {
        Self::with_options(address, &ClientOptions::default())
    }

    /// A client that reaches the server as the options say.
    pub fn with_options(address: &str, options: &ClientOptions) -> Result<Self> {
        Ok(Self { http: Http::new(address, options)? })
    }

    /// Sends a token with every request. Refused for plain HTTP to another machine, unless the options allow
    /// it.
    pub fn with_token(self, token: impl Into<String>) -> Result<Self> {
        Ok(Self { http: self.http.with_token(token.into())? })
    }

    /// Whether the server is ready: an error if it is not.
    pub async fn ready(&self) -> Result<wire::Health> {
        self.http.get(&["readyz"], &(), CALL_TIMEOUT).await
    }

    /// Enqueues a task, or finds it by its idempotency key.
    pub async fn enqueue(&self, task: wire::NewTask) -> Result<wire::Enqueued> {
        self.post(&["tasks"], &task).await
    }

    /// Enqueues a batch, with one result per task; if one task is invalid, none is stored.
    pub async fn enqueue_batch(&self, tasks: Vec<wire::NewTask>) -> Result<Vec<wire::EnqueueMember>> {
        match self.post(&["tasks"], &wire::EnqueueRequest::Many { tasks }).await? {
            wire::EnqueueResponse::Many { tasks } => Ok(tasks),
            wire::EnqueueResponse::One(enqueued) => Ok(vec![wire::EnqueueMember::Enqueued(enqueued)]),
        }
    }

    /// One page of the tasks that match.
    pub async fn list_tasks(&self, query: &wire::ListTasksQuery) -> Result<wire::Page<wire::Task>> {
        self.get(&["tasks"], query).await
    }

    /// A task by its id.
    pub async fn task(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.get(&["tasks", id], &within(namespace)).await
    }

    /// A task in its stored form, readable or not: save it before removing the task.
    pub async fn raw_task(&self, namespace: &str, id: &str) -> Result<wire::RawTask> {
        self.get(&["tasks", id, "raw"], &within(namespace)).await
    }

    /// Removes a task in any state, if its stored form still has the digest from
    /// [`raw_task`](Self::raw_task).
    pub async fn remove_task(&self, namespace: &str, id: &str, digest: &str) -> Result<()> {
        self.http.delete_if(&path(&["tasks", id]), &within(namespace), digest).await
    }

    /// Records that the server cannot read.
    pub async fn quarantine(
        &self,
        query: &wire::NamespacePageQuery,
    ) -> Result<wire::Page<wire::QuarantinedRecord>> {
        self.get(&["quarantine"], query).await
    }

    /// Cancels a task; a running handler is asked to stop.
    pub async fn cancel(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.act(&["tasks", id, "cancel"], namespace).await
    }

    /// Makes a waiting task due now.
    pub async fn run_now(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.act(&["tasks", id, "run-now"], namespace).await
    }

    /// Retries a finished task as a new task.
    pub async fn retry(&self, namespace: &str, id: &str) -> Result<wire::Enqueued> {
        self.act(&["tasks", id, "retry"], namespace).await
    }

    /// Why a task is not running.
    pub async fn explain(&self, namespace: &str, id: &str) -> Result<wire::Explanation> {
        self.get(&["tasks", id, "explain"], &within(namespace)).await
    }

    /// The last attempts of a task.
    pub async fn history(&self, namespace: &str, id: &str) -> Result<wire::History> {
        self.get(&["tasks", id, "history"], &within(namespace)).await
    }

    /// The log of an attempt; a long poll if the query has a `wait_ms`.
    pub async fn logs(&self, id: &str, query: &wire::LogsQuery) -> Result<wire::LogPage> {
        let timeout = Duration::from_millis(query.wait_ms.unwrap_or_default()).saturating_add(MARGIN);
        self.http.get(&path(&["tasks", id, "logs"]), query, timeout).await
    }

    /// Waits at most `timeout` for a task to finish.
    pub async fn wait(&self, namespace: &str, id: &str, timeout: Duration) -> Result<wire::Waited> {
        let timeout_ms = u64::try_from(timeout.as_millis()).ok();
        let query = wire::WaitQuery { namespace: Some(namespace.to_owned()), timeout_ms };
        self.http.get(&path(&["tasks", id, "wait"]), &query, timeout.saturating_add(MARGIN)).await
    }

    /// Cancels one page of the matching tasks, or counts them. Continue with the result's `next` as `cursor`.
    pub async fn cancel_many(
        &self,
        query: &wire::ListTasksQuery,
        how: &wire::BulkRequest,
    ) -> Result<wire::BulkResult> {
        self.http.send(Method::POST, &path(&["bulk", "cancel"]), query, how, CALL_TIMEOUT).await
    }

    /// Retries one page of the matching finished tasks, or counts them. Continue with the result's `next` as
    /// `cursor`.
    pub async fn retry_many(
        &self,
        query: &wire::ListTasksQuery,
        how: &wire::BulkRequest,
    ) -> Result<wire::BulkResult> {
        self.http.send(Method::POST, &path(&["bulk", "retry"]), query, how, CALL_TIMEOUT).await
    }

    /// A one-time link that logs a browser in as the owner of this client's token.
    pub async fn login_link(&self) -> Result<wire::LoginLink> {
        self.http.post_bare(&path(&["login-links"]), &()).await
    }

    /// One page of the namespaces that have something in them.
    pub async fn namespaces(&self, query: &wire::PageQuery) -> Result<wire::Page<wire::NamespaceItem>> {
        self.get(&["namespaces"], query).await
    }

    /// One page of a namespace's task groups.
    pub async fn groups(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::Group>> {
        self.get(&["groups"], query).await
    }

    /// All queues of a namespace; reads every page.
    pub async fn queues(&self, namespace: &str) -> Result<wire::Queues> {
        let mut all = Vec::new();
        let mut query = wire::QueuesQuery { namespace: Some(namespace.to_owned()), ..Default::default() };
        loop {
            let page: wire::Queues = self.get(&["queues"], &query).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(wire::Queues { items: all, next: None }),
            }
        }
    }

    /// Replaces the settings of a queue.
    pub async fn put_queue(
        &self,
        namespace: &str,
        queue: &str,
        settings: &wire::PutQueue,
    ) -> Result<wire::QueueVersion> {
        let path = path(&["queues", queue]);
        self.http.send(Method::PUT, &path, &within(namespace), settings, CALL_TIMEOUT).await
    }

    /// Pauses a queue: its tasks are not leased.
    pub async fn pause_queue(&self, namespace: &str, queue: &str) -> Result<wire::QueueVersion> {
        self.act(&["queues", queue, "pause"], namespace).await
    }

    /// Resumes a paused queue.
    pub async fn resume_queue(&self, namespace: &str, queue: &str) -> Result<wire::QueueVersion> {
        self.act(&["queues", queue, "resume"], namespace).await
    }

    /// How many tasks are in each state.
    pub async fn counts(&self, query: &wire::CountsQuery) -> Result<wire::Counts> {
        self.get(&["counts"], query).await
    }

    /// One page of a namespace's workers, stopped ones included.
    pub async fn workers(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::Worker>> {
        self.get(&["workers"], query).await
    }

    /// Sets what a worker does from its next heartbeat on.
    pub async fn direct_worker(
        &self,
        namespace: &str,
        id: &str,
        request: wire::DirectiveRequest,
    ) -> Result<()> {
        let path = path(&["workers", id, "directive"]);
        self.http.send(Method::POST, &path, &within(namespace), &request, CALL_TIMEOUT).await
    }

    /// One page of the audit journal.
    pub async fn audit(&self, query: &wire::AuditQuery) -> Result<wire::AuditPage> {
        self.get(&["audit"], query).await
    }

    /// The event stream of a namespace; `after` is the id of the last event of an earlier stream.
    pub async fn events(&self, query: &wire::EventsQuery, after: Option<&str>) -> Result<Events> {
        let response = self.http.stream(&path(&["events"]), query, after).await?;
        Ok(Events::new(self.http.clone(), response))
    }

    /// Leases due tasks; a long poll if the request has a `wait_ms`.
    pub async fn lease(&self, request: &wire::LeaseRequest) -> Result<wire::LeaseResponse> {
        self.work("lease", request, request.wait_ms).await
    }

    /// Waits until a task may be due.
    pub async fn wait_for_work(&self, request: &wire::WaitForWork) -> Result<wire::WorkWaited> {
        self.work("wait", request, request.wait_ms).await
    }

    /// Waits until a leader assigns a task to a worker.
    pub async fn wait_for_assigned(&self, request: &wire::WaitForAssigned) -> Result<wire::WorkWaited> {
        self.work("wait-assigned", request, request.wait_ms).await
    }

    /// Starts tasks that a leader assigned to a worker.
    pub async fn start_assigned(&self, request: &wire::StartAssignedRequest) -> Result<wire::LeaseResponse> {
        self.work("start-assigned", request, 0).await
    }

    /// Waits until one of the leased tasks is cancelled.
    pub async fn wait_for_cancelled(
        &self,
        request: &wire::WaitForCancelled,
    ) -> Result<wire::CancelledWaited> {
        self.work("cancelled", request, request.wait_ms).await
    }

    /// Renews leases, with one result for each.
    pub async fn renew(&self, request: &wire::RenewRequest) -> Result<wire::RenewResponse> {
        self.work("renew", request, 0).await
    }

    /// Reports the outcomes of attempts; the server decides what becomes of the tasks.
    pub async fn finish(&self, request: &wire::FinishRequest) -> Result<wire::FinishResponse> {
        self.work("finish", request, 0).await
    }

    /// Confirms that handlers of cancelled tasks have stopped.
    pub async fn confirm_stopped(&self, request: &wire::ConfirmStoppedRequest) -> Result<()> {
        self.work("confirm-stopped", request, 0).await
    }

    /// Reports that workers are alive; the response has a directive for each.
    pub async fn heartbeat(&self, request: &wire::HeartbeatRequest) -> Result<wire::HeartbeatResponse> {
        self.work("heartbeat", request, 0).await
    }

    /// Marks workers as stopped.
    pub async fn deregister(&self, request: &wire::DeregisterRequest) -> Result<()> {
        self.work("deregister", request, 0).await
    }

    /// One page of the tokens, without their secrets.
    pub async fn tokens(&self, query: &wire::PageQuery) -> Result<wire::Page<wire::Token>> {
        self.get(&["tokens"], query).await
    }

    /// Creates a token; only this response contains it.
    pub async fn create_token(&self, token: &wire::NewToken) -> Result<wire::CreatedToken> {
        self.post(&["tokens"], token).await
    }

    /// Revokes a token: it is refused from now on.
    pub async fn revoke_token(&self, id: &str) -> Result<()> {
        self.http.delete(&path(&["tokens", id]), &()).await
    }

    /// Appends entries to streams.
    pub async fn append(&self, request: &wire::AppendRequest) -> Result<()> {
        self.work("append", request, 0).await
    }

    pub(crate) async fn get<Q: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        rest: &[&str],
        query: &Q,
    ) -> Result<T> {
        self.http.get(&path(rest), query, CALL_TIMEOUT).await
    }

    pub(crate) async fn act<T: serde::de::DeserializeOwned>(
        &self,
        rest: &[&str],
        namespace: &str,
    ) -> Result<T> {
        self.http.post_bare(&path(rest), &within(namespace)).await
    }

    pub(crate) async fn post<B: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        rest: &[&str],
        body: &B,
    ) -> Result<T> {
        self.http.send(Method::POST, &path(rest), &(), body, CALL_TIMEOUT).await
    }

    async fn work<B: serde::Serialize, T: serde::de::DeserializeOwned>(
        &self,
        verb: &str,
        body: &B,
        wait_ms: u64,
    ) -> Result<T> {
        let timeout = Duration::from_millis(wait_ms).saturating_add(MARGIN);
        self.http.send(Method::POST, &path(&["work", verb]), &(), body, timeout).await
    }
}

pub(crate) fn path<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    API.iter().copied().chain(rest.iter().copied()).collect()
}

pub(crate) fn within(namespace: &str) -> wire::NamespaceQuery {
    wire::NamespaceQuery { namespace: Some(namespace.to_owned()) }
}
