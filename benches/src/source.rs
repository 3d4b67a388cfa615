//! A work source that counts the calls of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use weaver_core::error::Result;
use weaver_core::lease::{Lease, LeaseRequest, Leased, Renewal, Renewed};
use weaver_core::name::Namespace;
use weaver_core::ports::{Beat, Directive, RunnerKey, StreamKey, TrimBefore};
use weaver_core::queue::{Enqueued, Interest, Wake};
use weaver_core::task::NewTask;
use weaver_core::time::Monotonic;
use weaver_runtime::{End, Ended, EndedAndLeased, LocalSource, Maintained, WorkSource};

/// Forwards all calls, and counts renewals.
pub struct Counting {
    inner: LocalSource,
    calls: AtomicU64,
    members: AtomicU64,
}

impl Counting {
    /// Wraps `inner`, with counters at 0.
    pub fn new(inner: LocalSource) -> Arc<Self> {
        Arc::new(Self { inner, calls: AtomicU64::new(0), members: AtomicU64::new(0) })
    }

    /// Calls of `renew` and leases in them, so far.
    pub fn renewals(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.members.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl WorkSource for Counting {
    async fn lease(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        self.inner.lease(request).await
    }

    async fn start_assigned(&self, request: LeaseRequest) -> Result<Vec<Leased>> {
        self.inner.start_assigned(request).await
    }

    async fn renew(&self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.members.fetch_add(renewals.len() as u64, Ordering::Relaxed);
        self.inner.renew(renewals).await
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Ended>> {
        self.inner.finish(ends).await
    }

    fn finishes_and_leases_at_once(&self) -> bool {
        self.inner.finishes_and_leases_at_once()
    }

    async fn finish_and_lease(&self, ends: &[End], request: LeaseRequest) -> Result<EndedAndLeased> {
        self.inner.finish_and_lease(ends, request).await
    }

    async fn confirm_stopped(&self, leases: Vec<Lease>) -> Result<()> {
        self.inner.confirm_stopped(leases).await
    }

    async fn wait(&self, interest: Interest, timeout: Duration) -> Result<Wake> {
        self.inner.wait(interest, timeout).await
    }

    async fn heartbeat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.inner.heartbeat(beats).await
    }

    async fn deregister(&self, key: &RunnerKey) -> Result<()> {
        self.inner.deregister(key).await
    }

    async fn append(
        &self,
        stream: &StreamKey,
        entries: &[Bytes],
        lease: Option<&Lease>,
        keep: Option<TrimBefore>,
    ) -> Result<()> {
        self.inner.append(stream, entries, lease, keep).await
    }

    async fn enqueue(&self, tasks: Vec<NewTask>) -> Result<Vec<Result<Enqueued>>> {
        self.inner.enqueue(tasks).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.inner.namespaces().await
    }

    async fn maintain(&self, now: Monotonic) -> Result<Maintained> {
        self.inner.maintain(now).await
    }
}
