//! The client's methods for merge queues.

use reqwest::Method;
use weaver_api as wire;

use crate::client::{Client, path};
use crate::error::ClientError;
use crate::events::MergeEvents;
use crate::http::CALL_TIMEOUT;

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// Every merge queue that the token may see.
    pub async fn merge_queues(&self) -> Result<wire::MergeQueues> {
        self.get(&["merge", "queues"], &()).await
    }

    /// Creates the merge queue of a base branch.
    pub async fn add_merge_queue(&self, new: &wire::NewMergeQueue) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues"], new).await
    }

    /// A merge queue by its id.
    pub async fn merge_queue(&self, queue: &str) -> Result<wire::MergeQueue> {
        self.get(&["merge", "queues", queue], &()).await
    }

    /// Removes a merge queue; its history and its chain stay readable.
    pub async fn remove_merge_queue(
        &self,
        queue: &str,
        query: &wire::RemoveMergeQuery,
    ) -> Result<wire::MergeQueue> {
        self.http.delete(&path(&["merge", "queues", queue]), query).await
    }

    /// The entries in the queue, and the history of those that left it.
    pub async fn merge_entries(
        &self,
        queue: &str,
        query: &wire::MergeEntriesQuery,
    ) -> Result<wire::MergeEntries> {
        self.get(&["merge", "queues", queue, "entries"], query).await
    }

    /// Enqueues a change: on plain git, a branch.
    pub async fn enqueue_merge(&self, queue: &str, new: &wire::NewMergeEntry) -> Result<wire::MergeEntry> {
        self.post(&["merge", "queues", queue, "entries"], new).await
    }

    /// An entry, in the queue or not.
    pub async fn merge_entry(&self, queue: &str, entry: u64) -> Result<wire::MergeEntry> {
        self.get(&["merge", "queues", queue, "entries", &entry.to_string()], &()).await
    }

    /// Removes an entry from the queue.
    pub async fn cancel_merge(&self, queue: &str, entry: u64) -> Result<wire::MergeEntry> {
        let entry = entry.to_string();
        self.http.post_bare(&path(&["merge", "queues", queue, "entries", &entry, "cancel"]), &()).await
    }

    /// Changes the priority of an entry.
    pub async fn set_merge_priority(
        &self,
        queue: &str,
        entry: u64,
        put: &wire::PutMergePriority,
    ) -> Result<wire::MergeEntry> {
        let entry = entry.to_string();
        let path = path(&["merge", "queues", queue, "entries", &entry, "priority"]);
        self.http.send(Method::PUT, &path, &(), put, CALL_TIMEOUT).await
    }

    /// Verifies a landing against the repository.
    pub async fn verify_merge(&self, queue: &str, entry: u64) -> Result<wire::MergeVerified> {
        self.get(&["merge", "queues", queue, "entries", &entry.to_string(), "verify"], &()).await
    }

    /// Certificates of the last landings.
    pub async fn merge_certificates(
        &self,
        queue: &str,
        query: &wire::MergeEntriesQuery,
    ) -> Result<wire::MergeCertificates> {
        self.get(&["merge", "queues", queue, "certificates"], query).await
    }

    /// The event stream of a queue; `after` is the id of the last event of an earlier stream, `0` is before
    /// the first.
    pub async fn merge_events(&self, queue: &str, after: Option<&str>) -> Result<MergeEvents> {
        let response = self.http.stream(&path(&["merge", "queues", queue, "events"]), &(), after).await?;
        Ok(MergeEvents::new(self.http.clone(), response))
    }

    /// Changes the priority of a queue among the queues.
    pub async fn set_merge_queue_priority(
        &self,
        queue: &str,
        put: &wire::PutMergePriority,
    ) -> Result<wire::MergeQueue> {
        let path = path(&["merge", "queues", queue, "priority"]);
        self.http.send(Method::PUT, &path, &(), put, CALL_TIMEOUT).await
    }

    /// Pauses a queue: no new candidate is built.
    pub async fn pause_merge(&self, queue: &str, pause: &wire::PauseMerge) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues", queue, "pause"], pause).await
    }

    /// Accepts a move of the base that did not come through the queue, and resumes.
    pub async fn accept_merge(&self, queue: &str, accept: &wire::AcceptMerge) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues", queue, "accept"], accept).await
    }

    /// Sets what a queue does after a push to its base that did not come through the queue.
    pub async fn set_merge_on_foreign(
        &self,
        queue: &str,
        put: &wire::PutMergeOnForeign,
    ) -> Result<wire::MergeQueue> {
        let path = path(&["merge", "queues", queue, "on_foreign"]);
        self.http.send(Method::PUT, &path, &(), put, CALL_TIMEOUT).await
    }

    /// A part of a queue's chain.
    pub async fn merge_chain(
        &self,
        queue: &str,
        query: &wire::MergeChainQuery,
    ) -> Result<wire::MergeChainExport> {
        self.get(&["merge", "queues", queue, "chain"], query).await
    }

    /// Verifies a queue's chain, and a part of it against the repository.
    pub async fn verify_merge_chain(
        &self,
        queue: &str,
        query: &wire::MergeVerifyQuery,
    ) -> Result<wire::MergeChainVerified> {
        self.get(&["merge", "queues", queue, "verify"], query).await
    }

    /// Resumes a paused queue.
    pub async fn resume_merge(&self, queue: &str) -> Result<wire::MergeQueue> {
        self.http.post_bare(&path(&["merge", "queues", queue, "resume"]), &()).await
    }
}
