//! What people do with queues.

use super::{EngineError, EntryDetail, MergeEngine, Stored};
use crate::domain::{EntryId, MergeError, MergeQueue, OnForeign, PRIORITY_LOWEST, QueueId, Repository};
use crate::forge::{Forge, ForgeError, MergeOutcome, MergeRequest};

/// How often a command is tried again when others change the queue.
const TRIES_MAX: usize = 32;
/// The longest name of a repository together with its branch: it is part of keys.
const NAME_MAX_BYTES: usize = 100;

/// Where a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Its entry.
    pub entry: EntryId,
    /// Counted from 1.
    pub position: usize,
}

impl MergeEngine {
    /// Looks whether a queue for a branch of a repository can work.
    pub async fn examine(&self, repository: &Repository, base_branch: &str) -> Result<(), ForgeError> {
        self.forges.open(repository).examine(base_branch).await
    }

    /// Makes the queue of a base branch; one that is there stays as it is.
    pub async fn add_queue(
        &self,
        repository: Repository,
        base_branch: &str,
    ) -> Result<MergeQueue, EngineError> {
        let invalid = |problem: String| {
            MergeError::InvalidBaseBranch { base_branch: base_branch.to_owned(), problem }.into()
        };
        let now = self.clock.now();
        let mut queue = MergeQueue::new(repository, base_branch, now);
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        if queue.id.0.len() > NAME_MAX_BYTES || !queue.id.0.chars().all(is_plain) {
            let problem = format!("names are at most {NAME_MAX_BYTES} bytes, without spaces");
            return Err(invalid(problem));
        }
        let forge = self.forges.open(&queue.repository);
        let Some(tip) = forge.tip(base_branch).await? else {
            return Err(invalid("there is no such branch: push one first".to_owned()));
        };
        super::read_config(&*forge, &tip).await?.map_err(invalid)?;
        if self.ledger.load(&self.options.namespace, &queue.id).await?.is_none() {
            self.begin(&mut queue, tip, now).await?;
        }
        self.ledger.create(&self.options.namespace, &queue).await?;
        self.changed.send_modify(|count| *count += 1);
        Ok(self.get(&queue.id).await?.queue)
    }

    /// Puts a change in line, by the name its forge knows it by.
    pub async fn enqueue(
        &self,
        queue: &QueueId,
        change: &str,
        priority: u8,
    ) -> Result<Position, EngineError> {
        let stored = self.get(queue).await?;
        let forge = self.forges.open(&stored.queue.repository);
        let base_branch = stored.queue.base_branch.clone();
        let Some(mut state) = forge.change(change, &base_branch).await? else {
            return Err(MergeError::PullRequestClosed(change.to_owned()).into());
        };
        if state.pull_request.id == base_branch {
            let problem = "it cannot land on itself".to_owned();
            return Err(MergeError::InvalidBaseBranch { base_branch, problem }.into());
        }
        state.is_conflicted |= conflicts(&*forge, &base_branch, &state.pull_request.head).await?;
        let now = self.clock.now();
        let answer = self.change(queue, |next| {
            let entry = next.enqueue(&state, priority, now)?;
            Ok(Position { entry, position: next.position(entry).unwrap_or_default() })
        });
        answer.await
    }

    /// Takes an entry out.
    pub async fn cancel(&self, queue: &QueueId, id: EntryId) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.change(queue, |next| next.cancel(id, now).map(drop)).await
    }

    /// Gives an entry another priority; answers its position.
    pub async fn set_priority(
        &self,
        queue: &QueueId,
        id: EntryId,
        priority: u8,
    ) -> Result<usize, EngineError> {
        self.change(queue, |next| next.set_priority(id, priority)).await
    }

    /// Gives a queue another priority among the queues.
    pub async fn set_queue_priority(&self, queue: &QueueId, priority: u8) -> Result<(), EngineError> {
        let set = |next: &mut MergeQueue| {
            next.priority = priority.min(PRIORITY_LOWEST);
            Ok(())
        };
        self.change(queue, set).await
    }

    /// Says what a queue does when others moved its base; `None` for what its repository's kind says.
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

    /// What a queue does when others moved its base.
    pub fn on_foreign(&self, queue: &MergeQueue) -> OnForeign {
        queue.on_foreign.unwrap_or_else(|| self.forges.open(&queue.repository).on_foreign())
    }

    /// Stops anything new.
    pub async fn pause(&self, queue: &QueueId, reason: &str) -> Result<(), EngineError> {
        let now = self.clock.now();
        let pause = |next: &mut MergeQueue| {
            next.pause(reason.to_owned(), now);
            Ok(())
        };
        self.change(queue, pause).await
    }

    /// Goes on.
    pub async fn resume(&self, queue: &QueueId) -> Result<(), EngineError> {
        let resume = |next: &mut MergeQueue| {
            next.resume();
            Ok(())
        };
        self.change(queue, resume).await
    }

    /// Every queue.
    pub async fn queues(&self) -> Result<Vec<MergeQueue>, EngineError> {
        self.ledger.list(&self.options.namespace).await
    }

    /// A queue.
    pub async fn get(&self, queue: &QueueId) -> Result<Stored, EngineError> {
        let found = self.ledger.load(&self.options.namespace, queue).await?;
        found.ok_or_else(|| EngineError::NoQueue(queue.clone()))
    }

    /// An entry, in the queue or gone.
    pub async fn entry(&self, queue: &QueueId, id: EntryId) -> Result<EntryDetail, EngineError> {
        let stored = self.get(queue).await?;
        let detail = self.ledger.entry(&self.options.namespace, queue, id).await?;
        match (stored.queue.entry(id), detail) {
            (Ok(entry), _) => Ok(EntryDetail { entry: entry.clone(), departure: None, certificate: None }),
            (Err(_), Some(detail)) if detail.departure.is_some() => Ok(detail),
            (Err(unknown), _) => Err(unknown.into()),
        }
    }

    /// The last entries that left, newest first.
    pub async fn departed(&self, queue: &QueueId, count: u64) -> Result<Vec<EntryDetail>, EngineError> {
        let stored = self.get(queue).await?;
        let mut details = self.ledger.entries(&self.options.namespace, &stored.queue, count).await?;
        details.retain(|detail| detail.departure.is_some() && stored.queue.entry(detail.entry.id).is_err());
        details.reverse();
        Ok(details)
    }

    /// Changes a queue; again, if somebody else was faster.
    pub(super) async fn change<T>(
        &self,
        id: &QueueId,
        change: impl Fn(&mut MergeQueue) -> Result<T, MergeError> + Send + Sync,
    ) -> Result<T, EngineError> {
        for _ in 0..TRIES_MAX {
            let mut stored = self.get(id).await?;
            let mut next = stored.queue.clone();
            let answer = change(&mut next)?;
            if next == stored.queue || self.save(&mut stored, next).await? {
                self.changed.send_modify(|count| *count += 1);
                return Ok(answer);
            }
        }
        Err(EngineError::Busy)
    }
}

/// Whether a change conflicts with the base as it is now. By the time it is its turn this may have changed
/// either way: the plan goes by the candidate.
async fn conflicts(
    forge: &dyn Forge,
    base_branch: &str,
    head: &crate::domain::Oid,
) -> Result<bool, EngineError> {
    let Some(base) = forge.tip(base_branch).await? else { return Ok(false) };
    let request = MergeRequest { base, head: head.clone(), message: "trial".to_owned() };
    Ok(matches!(forge.merge(&request).await?, MergeOutcome::Conflict(_)))
}
