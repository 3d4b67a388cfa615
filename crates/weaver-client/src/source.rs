//! The remote work source: carries a worker's calls to a server, which decides.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_api as wire;
use weaver_core::error::{Error, Result};
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::limits::Limits;
use weaver_core::name::{Namespace, QueueName, TaskType};
use weaver_core::ports::{Beat, Directive, RunnerKey, StreamKey, TrimBefore};
use weaver_core::queue::{Enqueued, Interest, Wake};
use weaver_core::task::{ContentType, NewTask, Start, ValidTask, validate_batch};
use weaver_core::time::Monotonic;
use weaver_runtime::{End, Ended, EndedAndLeased, Maintained, WorkSource};

use crate::client::Client;
use crate::error::ClientError;

/// The longest long poll; the server may end it sooner. The worker polls again.
const POLL_MAX: Duration = Duration::from_secs(25);

/// A server as a work source. Maintenance is done by the server.
#[derive(Debug, Clone)]
pub struct RemoteSource {
    client: Client,
}

impl RemoteSource {
    /// Works for the client's server.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl WorkSource for RemoteSource {
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        let response = self.client.lease(&wire::LeaseRequest::of(&request, Duration::ZERO)).await?;
        response.tasks.into_iter().map(|leased| Ok(Leased::try_from(leased)?)).collect()
    }

    async fn start_assigned(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        let response = self.client.start_assigned(&wire::StartAssignedRequest::of(&request)).await?;
        response.tasks.into_iter().map(|leased| Ok(Leased::try_from(leased)?)).collect()
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        let renewals: Vec<_> = renewals.iter().map(wire::Renewal::from).collect();
        let count = renewals.len();
        let response = match self.client.renew(&wire::RenewRequest { renewals }).await {
            Ok(response) => response,
            // The token was revoked or has expired, and a lease ends with its subject's last token: stop at
            // once, instead of running on until the lease's time is up.
            Err(ClientError::Refused(problem)) if problem.status == 401 => {
                return Ok(vec![Renewed::Lost; count]);
            }
            Err(error) => return Err(error.into()),
        };
        same_number(count, response.results)
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>> {
        let ends_on_wire = ends.iter().map(|end| wire::Finish::of(&end.leased.lease, &end.outcome)).collect();
        let response = self.client.finish(&wire::FinishRequest { ends: ends_on_wire }).await?;
        same_number(ends.len(), response.results.iter().map(ended).collect())
    }

    fn finishes_and_leases_at_once(&self) -> bool {
        false
    }

    async fn finish_and_lease(&self, ends: &[End], request: LeaseRequest) -> Result<EndedAndLeased> {
        let ended = self.finish(ends).await?;
        Ok((ended, self.lease(request).await))
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        let leases = leases.iter().map(wire::Lease::from).collect();
        Ok(self.client.confirm_stopped(&wire::ConfirmStoppedRequest { leases }).await?)
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        let wait_ms = u64::try_from(timeout.min(POLL_MAX).as_millis()).unwrap_or(u64::MAX);
        let (namespace, queues, types, fragile) = match interest {
            Interest::Work { namespace, queues, types, fragile } => (namespace, queues, types, fragile),
            Interest::Cancelled { leases } => {
                let leases = leases.iter().map(wire::Lease::from).collect();
                let request = wire::WaitForCancelled { leases, wait_ms };
                let waited = self.client.wait_for_cancelled(&request).await?;
                return Ok(if waited.cancelled { Wake::Ready } else { Wake::TimedOut });
            }
            Interest::Assigned { namespace, worker } => {
                let (namespace, worker) = (namespace.to_string(), worker.to_string());
                let request = wire::WaitForAssigned { namespace, worker, wait_ms };
                let waited = self.client.wait_for_assigned(&request).await?;
                return Ok(if waited.ready { Wake::Ready } else { Wake::TimedOut });
            }
            Interest::Changes { .. } | Interest::Assignable { .. } => {
                let reason = "a remote worker can wait only for work and for cancellations".to_owned();
                return Err(Error::Unavailable { reason });
            }
        };
        let text = |names: Vec<TaskType>| names.iter().map(ToString::to_string).collect();
        let request = wire::WaitForWork {
            namespace: namespace.to_string(),
            queues: queues.iter().map(QueueName::to_string).collect(),
            types: types.map(text),
            fragile,
            wait_ms,
        };
        let waited = self.client.wait_for_work(&request).await?;
        // A poll capped at POLL_MAX reads as a wake-up: the worker requests a lease, and waits again.
        Ok(if waited.ready || timeout > POLL_MAX { Wake::Ready } else { Wake::TimedOut })
    }

    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        let count = beats.len();
        let heartbeats = beats.iter().map(wire::Heartbeat::from).collect();
        same_number(count, self.client.heartbeat(&wire::HeartbeatRequest { heartbeats }).await?.directives)
    }

    async fn deregister(&self, key: &RunnerKey) -> Result<()> {
        let (namespace, worker_id) = (key.namespace.to_string(), key.runner_id.to_string());
        let request = wire::DeregisterRequest { workers: vec![wire::WorkerRef { namespace, worker_id }] };
        Ok(self.client.deregister(&request).await?)
    }

    async fn append(
        &self,
        stream: &StreamKey,
        entries: &[Bytes],
        lease: Option<&Lease>,
        keep: Option<TrimBefore>,
    ) -> Result<()> {
        let (trim_before, trim_before_seq) = match keep {
            Some(TrimBefore::Time(instant)) => (Some(instant), None),
            Some(TrimBefore::Seq(seq)) => (None, Some(seq.0)),
            None => (None, None),
        };
        let append = wire::StreamAppend {
            namespace: stream.namespace.to_string(),
            stream: shown_stream(stream, lease),
            entries: entries.iter().cloned().map(wire::Body).collect(),
            lease: lease.map(wire::Lease::from),
            trim_before,
            trim_before_seq,
        };
        Ok(self.client.append(&wire::AppendRequest { appends: vec![append] }).await?)
    }

    async fn enqueue(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        // Checked here as well: what cannot be right need not travel, and the error is the same as with a
        // store.
        let tasks = validate_batch(tasks, &Limits::default())?.iter().map(new_task).collect();
        let members = self.client.enqueue_batch(tasks).await?;
        members.into_iter().map(|member| Ok(enqueued(member))).collect()
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>> {
        let mut names = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.client.namespaces(&wire::PageQuery { cursor, limit: Some(1000) }).await?;
            for item in page.items {
                names.push(Namespace::new(item.name)?);
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(names),
            }
        }
    }

    async fn maintain(&self, _: Monotonic) -> Result<Maintained> {
        Ok(Maintained::default())
    }
}

/// A response with more or fewer results than the request would be matched to the wrong tasks.
fn same_number<T>(requested: usize, results: Vec<T>) -> Result<Vec<T>> {
    if requested == results.len() {
        return Ok(results);
    }
    let reason = format!("the server returned {} results for {requested} requests", results.len());
    Err(Error::Unavailable { reason })
}

fn ended(result: &wire::FinishResult) -> Ended {
    let size = |bytes: Option<u64>| usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX);
    match (result.status, result.state) {
        (wire::FinishStatus::Recorded, Some(state)) => {
            Ended::Recorded { state, due_after: result.due_after_ms.map(Duration::from_millis) }
        }
        (wire::FinishStatus::ResultTooLarge, _) => {
            Ended::ResultTooLarge { bytes: size(result.bytes), max_bytes: size(result.max_bytes) }
        }
        (wire::FinishStatus::Lost | wire::FinishStatus::Recorded, _) => Ended::Lost,
    }
}

fn enqueued(member: wire::EnqueueMember) -> Result<Enqueued> {
    match member {
        wire::EnqueueMember::Enqueued(enqueued) => {
            let id = enqueued.id.parse().map_err(|error| Error::Unavailable {
                reason: format!("the server returned an invalid task id: {error}"),
            })?;
            let key = weaver_core::id::TaskKey::new(Namespace::new(enqueued.namespace)?, id);
            Ok(Enqueued { key, existing: enqueued.existing })
        }
        wire::EnqueueMember::Failed { problem } => Err(ClientError::Refused(Box::new(problem)).into()),
    }
}

/// A checked task as it travels.
/// The name of a stream, in which a log has the id of its task as the server shows it.
fn shown_stream(stream: &StreamKey, lease: Option<&Lease>) -> String {
    match lease {
        Some(lease) if *stream == StreamKey::attempt_log(&lease.key, lease.attempt) => {
            format!("task/{}/{}", lease.key.shown_id(), lease.attempt)
        }
        _ => stream.name.clone(),
    }
}

fn new_task(task: &ValidTask) -> wire::NewTask {
    let (spec, origin) = (&task.spec, task.spec.origin());
    let is_json = spec.envelope.content_type == ContentType::JSON;
    // Only exact JSON may go as JSON: what arrives must be the bytes that were given.
    let json = is_json.then(|| wire::Json::from_bytes(&spec.envelope.payload)).flatten();
    let json = json.filter(|json| json.as_str().as_bytes() == spec.envelope.payload);
    let payload_hex = json.is_none().then(|| {
        use std::fmt::Write as _;
        spec.envelope.payload.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    });
    let (delay_ms, run_at) = match task.start {
        Start::Now => (None, None),
        Start::After(delay) => (u64::try_from(delay.as_millis()).ok(), None),
        Start::At(instant) => (None, Some(instant)),
    };
    wire::NewTask {
        task_type: spec.envelope.task_type.to_string(),
        namespace: Some(task.namespace.to_string()),
        queue: Some(spec.queue.to_string()),
        payload: json,
        payload_hex,
        content_type: Some(spec.envelope.content_type.to_string()),
        priority: Some(spec.priority.get()),
        delay_ms,
        run_at,
        max_attempts: Some(spec.max_attempts),
        max_losses: Some(spec.max_losses),
        retry: Some(spec.retry.into()),
        timeout_ms: spec.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()),
        expires_at: spec.expires_at,
        serial_key: spec.serial_key.as_ref().map(ToString::to_string),
        idempotency_key: spec.idempotency_key.as_ref().map(ToString::to_string),
        task_group_id: origin.task_group_id.as_ref().map(ToString::to_string),
        session_id: origin.session_id.as_ref().map(ToString::to_string),
        labels: origin.labels.clone(),
        dispatch: origin.dispatch,
        trace: origin.trace.clone().map(wire::Trace::from),
    }
}
