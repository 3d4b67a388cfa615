//! Commands of operators and producers.

use super::{EngineError, EntryDetail, MergeEngine, VersionedQueue};
use crate::domain::{
    Conflict, EnqueueOptions, EntryId, MergeError, MergeQueue, Oid, OnForeign, OnPush, PRIORITY_LOWEST,
    QueueId, branch_name_problem,
};
use crate::forge::{Forge, MergeOutcome, MergeRequest};

/// Optimistic-concurrency retries of a command.
pub(super) const TRIES_MAX: usize = 32;

/// Position of an enqueued change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number of its entry.
    pub entry: EntryId,
    /// From 1, the head of the queue.
    pub position: usize,
}

/// A change to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// Its id on the forge: a branch name on plain git.
    pub change: String,
    /// The only head that may be enqueued; none for any.
    pub head: Option<Oid>,
    /// The authenticated subject or local user.
    pub by: Option<String>,
}

impl From<&str> for NewEntry {
    fn from(change: &str) -> Self {
        Self { change: change.to_owned(), head: None, by: None }
    }
}

impl MergeEngine {
    /// Enqueues a change, pinned to its current head.
    pub async fn enqueue(
        &self,
        queue: &QueueId,
        new: impl Into<NewEntry>,
        priority: u8,
    ) -> Result<Position, EngineError> {
        let new = new.into();
        let exact = new.change.strip_prefix("refs/heads/").unwrap_or(&new.change);
        if let Some(problem) = branch_name_problem(exact) {
            return Err(MergeError::InvalidBranchName { name: new.change, problem }.into());
        }
        let stored = self.get(queue).await?;
        stored.queue.refuse_removed()?;
        let forge = self.forges.open(&stored.queue.repository);
        let base_branch = stored.queue.base_branch.clone();
        let Some(mut state) = forge.change(&new.change, &base_branch).await? else {
            return Err(MergeError::PullRequestClosed(new.change).into());
        };
        if state.pull_request.id == base_branch {
            let problem = "a branch cannot land on itself".to_owned();
            return Err(MergeError::InvalidBaseBranch { base_branch, problem }.into());
        }
        let base = forge.tip(&base_branch).await?;
        if let Some(base) = &base {
            let known = self.conflict(&*forge, &stored.queue, base, &state.pull_request.head).await?;
            state.conflict = known.or(state.conflict.take());
        }
        let options =
            EnqueueOptions { priority, by: new.by, head: new.head, on_push: on_push(&*forge, base).await? };
        let now = self.clock.now();
        let answer = self.change(queue, |next| {
            let entry = next.enqueue_with(&state, &options, now)?;
            Ok(Position { entry, position: next.position(entry).unwrap_or_default() })
        });
        answer.await
    }

    /// How a change conflicts with the base now. By the time it is processed this may have changed: the plan
    /// goes by the candidate.
    async fn conflict(
        &self,
        forge: &dyn Forge,
        queue: &MergeQueue,
        base: &Oid,
        head: &Oid,
    ) -> Result<Option<Conflict>, EngineError> {
        let request = MergeRequest { base: base.clone(), head: head.clone(), message: "trial".to_owned() };
        let MergeOutcome::Conflict(paths) = forge.merge(&request).await? else { return Ok(None) };
        let with = self.collisions(forge, queue, base, head, &paths).await?;
        Ok(Some(Conflict { paths, with }))
    }

    /// Cancels an entry; refused while it is landing.
    pub async fn cancel(&self, queue: &QueueId, id: EntryId) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.change(queue, |next| next.cancel(id, now).map(drop)).await
    }

    /// Changes an entry's priority, 0 to 9. Returns its position, from 1.
    pub async fn set_priority(
        &self,
        queue: &QueueId,
        id: EntryId,
        priority: u8,
    ) -> Result<usize, EngineError> {
        self.change(queue, |next| next.set_priority(id, priority)).await
    }

    /// Changes a queue's priority among the queues, 0 to 9.
    pub async fn set_queue_priority(&self, queue: &QueueId, priority: u8) -> Result<(), EngineError> {
        let set = |next: &mut MergeQueue| {
            next.priority = priority.min(PRIORITY_LOWEST);
            Ok(())
        };
        self.change(queue, set).await
    }

    /// Sets what a queue does when its base is changed outside; `None` for the forge's default.
    pub async fn set_on_foreign(
        &self,
        queue: &QueueId,
        on_foreign: Option<OnForeign>,
    ) -> Result<(), EngineError> {
        let set = |next: &mut MergeQueue| {
            next.on_foreign = on_foreign;
            Ok(())
        };
        self.change(queue, set).await
    }

    /// The effective setting: the queue's own, or the forge's default.
    pub fn on_foreign(&self, queue: &MergeQueue) -> OnForeign {
        queue.on_foreign.unwrap_or_else(|| self.forges.open(&queue.repository).on_foreign())
    }

    /// Pauses a queue: nothing new is started.
    pub async fn pause(&self, queue: &QueueId, reason: &str) -> Result<(), EngineError> {
        let now = self.clock.now();
        let pause = |next: &mut MergeQueue| {
            next.pause(reason.to_owned(), now);
            Ok(())
        };
        self.change(queue, pause).await
    }

    /// Resumes a paused queue.
    pub async fn resume(&self, queue: &QueueId) -> Result<(), EngineError> {
        let resume = |next: &mut MergeQueue| {
            next.resume();
            Ok(())
        };
        self.change(queue, resume).await
    }

    /// All readable queues, by id, with those that are being removed. Removed ones are left out.
    pub async fn queues(&self) -> Result<Vec<MergeQueue>, EngineError> {
        self.documents.list(&self.options.namespace).await
    }

    /// A queue and its version, also if it was removed.
    ///
    /// # Errors
    /// [`EngineError::NoQueue`] if it does not exist.
    pub async fn get(&self, queue: &QueueId) -> Result<VersionedQueue, EngineError> {
        let found = self.documents.load(&self.options.namespace, queue).await?;
        found.ok_or_else(|| EngineError::NoQueue(queue.clone()))
    }

    /// An entry, waiting or completed.
    pub async fn entry(&self, queue: &QueueId, id: EntryId) -> Result<EntryDetail, EngineError> {
        let stored = self.get(queue).await?;
        let detail = self.documents.entry(&self.options.namespace, queue, id).await?;
        match (stored.queue.entry(id), detail) {
            (Ok(entry), _) => Ok(EntryDetail { entry: entry.clone(), outcome: None, certificate: None }),
            (Err(_), Some(detail)) if detail.outcome.is_some() => Ok(detail),
            (Err(unknown), _) => Err(unknown.into()),
        }
    }

    /// Completed entries among the last `count`, newest first.
    pub async fn history(&self, queue: &QueueId, count: u64) -> Result<Vec<EntryDetail>, EngineError> {
        let stored = self.get(queue).await?;
        let mut details = self.documents.entries(&self.options.namespace, &stored.queue, count).await?;
        details.retain(|detail| detail.outcome.is_some() && stored.queue.entry(detail.entry.id).is_err());
        details.reverse();
        Ok(details)
    }

    /// Changes a queue by compare-and-set, retried on conflict.
    pub(super) async fn change<T>(
        &self,
        id: &QueueId,
        change: impl Fn(&mut MergeQueue) -> Result<T, MergeError> + Send + Sync,
    ) -> Result<T, EngineError> {
        for _ in 0..TRIES_MAX {
            let mut stored = self.get(id).await?;
            stored.queue.refuse_removed()?;
            let mut next = stored.queue.clone();
            let answer = change(&mut next)?;
            if next == stored.queue || self.save(&mut stored, next).await? {
                self.was_changed(id);
                return Ok(answer);
            }
        }
        Err(EngineError::Busy)
    }

    /// Wakes the queue's reconciler, and those of queues that it may have made room for.
    pub(super) fn was_changed(&self, id: &QueueId) {
        self.wakers.wake(id);
        self.wake_limited();
        self.changed.send_modify(|count| *count += 1);
    }
}

/// The setting on the base. If that cannot be read, a change that is in the queue stays as it is.
async fn on_push(forge: &dyn Forge, base: Option<Oid>) -> Result<OnPush, EngineError> {
    let Some(base) = base else { return Ok(OnPush::Retest) };
    Ok(super::read_config(forge, &base).await?.map_or(OnPush::Retest, |config| config.on_push))
}
