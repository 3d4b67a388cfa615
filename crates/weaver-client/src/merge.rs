//! The client's part for merge queues.

use reqwest::Method;
use weaver_api as wire;

use crate::client::{Client, path};
use crate::error::ClientError;
use crate::events::MergeEvents;
use crate::http::CALL_TIMEOUT;

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// The merge queues there are.
    pub async fn merge_queues(&self) -> Result<wire::MergeQueues> {
        self.get(&["merge", "queues"], &()).await
    }

    /// Makes the queue of a base branch.
    pub async fn add_merge_queue(&self, new: &wire::NewMergeQueue) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues"], new).await
    }

    /// A merge queue.
    pub async fn merge_queue(&self, queue: &str) -> Result<wire::MergeQueue> {
        self.get(&["merge", "queues", queue], &()).await
    }

    /// Who is in line, and who left.
    pub async fn merge_entries(
        &self,
        queue: &str,
        query: &wire::MergeEntriesQuery,
    ) -> Result<wire::MergeEntries> {
        self.get(&["merge", "queues", queue, "entries"], query).await
    }

    /// Puts a change in line.
    pub async fn enqueue_merge(&self, queue: &str, new: &wire::NewMergeEntry) -> Result<wire::MergeEntry> {
        self.post(&["merge", "queues", queue, "entries"], new).await
    }

    /// An entry, in line or gone.
    pub async fn merge_entry(&self, queue: &str, entry: u64) -> Result<wire::MergeEntry> {
        self.get(&["merge", "queues", queue, "entries", &entry.to_string()], &()).await
    }

    /// Takes an entry out.
    pub async fn cancel_merge(&self, queue: &str, entry: u64) -> Result<wire::MergeEntry> {
        let entry = entry.to_string();
        self.http.post_bare(&path(&["merge", "queues", queue, "entries", &entry, "cancel"]), &()).await
    }

    /// Gives an entry another priority.
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

    /// Checks what landed against the repository.
    pub async fn verify_merge(&self, queue: &str, entry: u64) -> Result<wire::MergeVerified> {
        self.get(&["merge", "queues", queue, "entries", &entry.to_string(), "verify"], &()).await
    }

    /// What landed, and what says that it was tested.
    pub async fn merge_certificates(
        &self,
        queue: &str,
        query: &wire::MergeEntriesQuery,
    ) -> Result<wire::MergeCertificates> {
        self.get(&["merge", "queues", queue, "certificates"], query).await
    }

    /// What happens in a queue, as it happens; goes on after the place an earlier stream had reached, if one
    /// is given. `0` is before the first.
    pub async fn merge_events(&self, queue: &str, after: Option<&str>) -> Result<MergeEvents> {
        let response = self.http.stream(&path(&["merge", "queues", queue, "events"]), &(), after).await?;
        Ok(MergeEvents::new(self.http.clone(), response))
    }

    /// Gives a queue another priority among the queues.
    pub async fn set_merge_queue_priority(
        &self,
        queue: &str,
        put: &wire::PutMergePriority,
    ) -> Result<wire::MergeQueue> {
        let path = path(&["merge", "queues", queue, "priority"]);
        self.http.send(Method::PUT, &path, &(), put, CALL_TIMEOUT).await
    }

    /// Starts nothing new in a queue.
    pub async fn pause_merge(&self, queue: &str, pause: &wire::PauseMerge) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues", queue, "pause"], pause).await
    }

    /// Goes on, and takes where others moved the base as it is.
    pub async fn accept_merge(&self, queue: &str, accept: &wire::AcceptMerge) -> Result<wire::MergeQueue> {
        self.post(&["merge", "queues", queue, "accept"], accept).await
    }

    /// Says what a queue does when others moved its base forward.
    pub async fn set_merge_on_foreign(
        &self,
        queue: &str,
        put: &wire::PutMergeOnForeign,
    ) -> Result<wire::MergeQueue> {
        let path = path(&["merge", "queues", queue, "on_foreign"]);
        self.http.send(Method::PUT, &path, &(), put, CALL_TIMEOUT).await
    }

    /// A part of the chain of a queue.
    pub async fn merge_chain(
        &self,
        queue: &str,
        query: &wire::MergeChainQuery,
    ) -> Result<wire::MergeChainExport> {
        self.get(&["merge", "queues", queue, "chain"], query).await
    }

    /// Checks the chain of a queue, a part of it against the repository.
    pub async fn verify_merge_chain(
        &self,
        queue: &str,
        query: &wire::MergeVerifyQuery,
    ) -> Result<wire::MergeChainVerified> {
        self.get(&["merge", "queues", queue, "verify"], query).await
    }

    /// Goes on.
    pub async fn resume_merge(&self, queue: &str) -> Result<wire::MergeQueue> {
        self.http.post_bare(&path(&["merge", "queues", queue, "resume"]), &()).await
    }
}
