//! The typed client: one method per route of [`weaver_api`].

use std::time::Duration;

use reqwest::Method;
use weaver_api as wire;

use crate::error::ClientError;
use crate::events::Events;
use crate::http::{CALL_TIMEOUT, Http};

type Result<T> = std::result::Result<T, ClientError>;

/// What a long poll may take beyond what it was asked to wait.
const MARGIN: Duration = Duration::from_secs(15);
const API: [&str; 2] = ["api", "v1"];

/// What the address of a server's Unix socket begins with; its whole path follows.
pub const SOCKET_SCHEME: &str = "unix:";

/// How a server is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// What requests go through.
    pub proxy: Proxy,
    /// Whether a token may be sent over plain HTTP to another machine, where everybody on the way can read
    /// it.
    pub insecure_http: bool,
}

/// A proxy between client and server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// None, whatever the environment says.
    #[default]
    None,
    /// What `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` say.
    Environment,
    /// This one.
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

    /// The same, reached as the options say.
    pub fn with_options(address: &str, options: &ClientOptions) -> Result<Self> {
        Ok(Self { http: Http::new(address, options)? })
    }

    /// The same, showing a token with every request. Refused for plain HTTP to another machine, unless the
    /// options allow it.
    pub fn with_token(self, token: impl Into<String>) -> Result<Self> {
        Ok(Self { http: self.http.with_token(token.into())? })
    }

    /// Whether the server is ready.
    pub async fn ready(&self) -> Result<wire::Health> {
        self.http.get(&["readyz"], &(), CALL_TIMEOUT).await
    }

    /// Enqueues one task.
    pub async fn enqueue(&self, task: wire::NewTask) -> Result<wire::Enqueued> {
        self.post(&["tasks"], &task).await
    }

    /// Enqueues many: each is answered for itself; if one is invalid, none is stored.
    pub async fn enqueue_batch(&self, tasks: Vec<wire::NewTask>) -> Result<Vec<wire::EnqueueMember>> {
        match self.post(&["tasks"], &wire::EnqueueRequest::Many { tasks }).await? {
            wire::EnqueueResponse::Many { tasks } => Ok(tasks),
            wire::EnqueueResponse::One(enqueued) => Ok(vec![wire::EnqueueMember::Enqueued(enqueued)]),
        }
    }

    /// Finds tasks.
    pub async fn list_tasks(&self, query: &wire::ListTasksQuery) -> Result<wire::Page<wire::Task>> {
        self.get(&["tasks"], query).await
    }

    /// Reads a task.
    pub async fn task(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.get(&["tasks", id], &within(namespace)).await
    }

    /// A task in its stored form, readable or not: to keep before it is removed.
    pub async fn raw_task(&self, namespace: &str, id: &str) -> Result<wire::RawTask> {
        self.get(&["tasks", id, "raw"], &within(namespace)).await
    }

    /// Removes a task whatever its state, if its stored form still has the digest that
    /// [`raw_task`](Self::raw_task) gave.
    pub async fn remove_task(&self, namespace: &str, id: &str, digest: &str) -> Result<()> {
        self.http.delete_if(&path(&["tasks", id]), &within(namespace), digest).await
    }

    /// What the server cannot read.
    pub async fn quarantine(
        &self,
        query: &wire::NamespacePageQuery,
    ) -> Result<wire::Page<wire::QuarantinedRecord>> {
        self.get(&["quarantine"], query).await
    }

    /// Cancels a task.
    pub async fn cancel(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.act(&["tasks", id, "cancel"], namespace).await
    }

    /// Makes a waiting task due.
    pub async fn run_now(&self, namespace: &str, id: &str) -> Result<wire::Task> {
        self.act(&["tasks", id, "run-now"], namespace).await
    }

    /// Runs an ended task again, as a new one.
    pub async fn retry(&self, namespace: &str, id: &str) -> Result<wire::Enqueued> {
        self.act(&["tasks", id, "retry"], namespace).await
    }

    /// Why a task is not running.
    pub async fn explain(&self, namespace: &str, id: &str) -> Result<wire::Explanation> {
        self.get(&["tasks", id, "explain"], &within(namespace)).await
    }

    /// A task's attempts.
    pub async fn history(&self, namespace: &str, id: &str) -> Result<wire::History> {
        self.get(&["tasks", id, "history"], &within(namespace)).await
    }

    /// What an attempt printed; waits for more as long as the query says.
    pub async fn logs(&self, id: &str, query: &wire::LogsQuery) -> Result<wire::LogPage> {
        let timeout = Duration::from_millis(query.wait_ms.unwrap_or_default()).saturating_add(MARGIN);
        self.http.get(&path(&["tasks", id, "logs"]), query, timeout).await
    }

    /// Waits for a task's end, at most so long.
    pub async fn wait(&self, namespace: &str, id: &str, timeout: Duration) -> Result<wire::Waited> {
        let timeout_ms = u64::try_from(timeout.as_millis()).ok();
        let query = wire::WaitQuery { namespace: Some(namespace.to_owned()), timeout_ms };
        self.http.get(&path(&["tasks", id, "wait"]), &query, timeout.saturating_add(MARGIN)).await
    }

    /// Cancels the tasks of a page of what matches, or counts them. Go on with the answer's `next` as
    /// `cursor`.
    pub async fn cancel_many(
        &self,
        query: &wire::ListTasksQuery,
        how: &wire::BulkRequest,
    ) -> Result<wire::BulkAnswer> {
        self.http.send(Method::POST, &path(&["bulk", "cancel"]), query, how, CALL_TIMEOUT).await
    }

    /// Runs the ended tasks of a page of what matches again, or counts them. Go on with the answer's `next`
    /// as `cursor`.
    pub async fn retry_many(
        &self,
        query: &wire::ListTasksQuery,
        how: &wire::BulkRequest,
    ) -> Result<wire::BulkAnswer> {
        self.http.send(Method::POST, &path(&["bulk", "retry"]), query, how, CALL_TIMEOUT).await
    }

    /// A link that logs a browser in once, as the owner of this client's token.
    pub async fn login_link(&self) -> Result<wire::LoginLink> {
        self.http.post_bare(&path(&["login-links"]), &()).await
    }

    /// The namespaces there are.
    pub async fn namespaces(&self, query: &wire::PageQuery) -> Result<wire::Page<wire::NamespaceItem>> {
        self.get(&["namespaces"], query).await
    }

    /// The task groups of a namespace.
    pub async fn groups(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::Group>> {
        self.get(&["groups"], query).await
    }

    /// The queues of a namespace: all of them, page by page.
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

    /// Changes the settings of a queue.
    pub async fn put_queue(
        &self,
        namespace: &str,
        queue: &str,
        settings: &wire::PutQueue,
    ) -> Result<wire::QueueVersion> {
        let path = path(&["queues", queue]);
        self.http.send(Method::PUT, &path, &within(namespace), settings, CALL_TIMEOUT).await
    }

    /// Takes nothing more from a queue.
    pub async fn pause_queue(&self, namespace: &str, queue: &str) -> Result<wire::QueueVersion> {
        self.act(&["queues", queue, "pause"], namespace).await
    }

    /// Takes from a queue again.
    pub async fn resume_queue(&self, namespace: &str, queue: &str) -> Result<wire::QueueVersion> {
        self.act(&["queues", queue, "resume"], namespace).await
    }

    /// How many tasks are in each state.
    pub async fn counts(&self, query: &wire::CountsQuery) -> Result<wire::Counts> {
        self.get(&["counts"], query).await
    }

    /// The runners of a namespace.
    pub async fn runners(&self, query: &wire::NamespacePageQuery) -> Result<wire::Page<wire::Runner>> {
        self.get(&["runners"], query).await
    }

    /// Tells a runner what to do.
    pub async fn direct(&self, namespace: &str, id: &str, told: wire::DirectRequest) -> Result<()> {
        let path = path(&["runners", id, "direct"]);
        self.http.send(Method::POST, &path, &within(namespace), &told, CALL_TIMEOUT).await
    }

    /// Who changed what.
    pub async fn audit(&self, query: &wire::AuditQuery) -> Result<wire::AuditPage> {
        self.get(&["audit"], query).await
    }

    /// What happens, as it happens; goes on after the place an earlier stream had reached, if one is given.
    pub async fn events(&self, query: &wire::EventsQuery, after: Option<&str>) -> Result<Events> {
        let response = self.http.stream(&path(&["events"]), query, after).await?;
        Ok(Events::new(self.http.clone(), response))
    }

    /// Takes due tasks; waits for some as long as the request says.
    pub async fn lease(&self, request: &wire::LeaseRequest) -> Result<wire::LeaseResponse> {
        self.work("lease", request, request.wait_ms).await
    }

    /// Waits for something to lease.
    pub async fn wait_for_work(&self, request: &wire::WaitForWork) -> Result<wire::WorkWaited> {
        self.work("wait", request, request.wait_ms).await
    }

    /// Waits until one of the tasks in hand is cancelled.
    pub async fn wait_for_cancelled(
        &self,
        request: &wire::WaitForCancelled,
    ) -> Result<wire::CancelledWaited> {
        self.work("cancelled", request, request.wait_ms).await
    }

    /// Extends leases.
    pub async fn renew(&self, request: &wire::RenewRequest) -> Result<wire::RenewResponse> {
        self.work("renew", request, 0).await
    }

    /// Reports how executions ended; the server decides what becomes of the tasks.
    pub async fn finish(&self, request: &wire::FinishRequest) -> Result<wire::FinishResponse> {
        self.work("finish", request, 0).await
    }

    /// Says that handlers of cancelled tasks have stopped.
    pub async fn confirm_stopped(&self, request: &wire::ConfirmStoppedRequest) -> Result<()> {
        self.work("confirm-stopped", request, 0).await
    }

    /// Says that workers are alive.
    pub async fn beat(&self, request: &wire::BeatRequest) -> Result<wire::BeatResponse> {
        self.work("beat", request, 0).await
    }

    /// Says goodbye.
    pub async fn leave(&self, request: &wire::LeaveRequest) -> Result<()> {
        self.work("leave", request, 0).await
    }

    /// The tokens, without their secrets.
    pub async fn tokens(&self, query: &wire::PageQuery) -> Result<wire::Page<wire::Token>> {
        self.get(&["tokens"], query).await
    }

    /// Makes a token; the answer is the only place it is ever told.
    pub async fn create_token(&self, token: &wire::NewToken) -> Result<wire::CreatedToken> {
        self.post(&["tokens"], token).await
    }

    /// Ends a token.
    pub async fn revoke_token(&self, id: &str) -> Result<()> {
        self.http.delete(&path(&["tokens", id]), &()).await
    }

    /// Adds entries to streams.
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
