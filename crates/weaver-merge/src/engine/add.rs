//! Adds queues: new ones, and removed ones again.

use weaver_core::name::Namespace;

use super::commands::TRIES_MAX;
use super::{EngineError, MergeEngine, read_config};
use crate::domain::{MergeError, MergeQueue, Oid, QueueId, RemoveOptions, Repository, branch_name_problem};
use crate::forge::{Forge, ForgeError};

/// Length of a queue's id, which is part of document keys.
const NAME_MAX_BYTES: usize = 100;

impl MergeEngine {
    /// Checks that a queue for this branch can work: git version, branch, hooks.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub async fn examine(&self, repository: &Repository, base_branch: &str) -> Result<(), ForgeError> {
        self.forges.open(repository).examine(base_branch).await
    }

    /// Creates the queue of a base branch in the namespace of the engine; an existing one is left unchanged.
    pub async fn add_queue(
        &self,
        repository: Repository,
        base_branch: &str,
    ) -> Result<MergeQueue, EngineError> {
        let namespace = self.options.namespace.clone();
        self.add_queue_in(&namespace, repository, base_branch, |_| true).await
    }

    /// Creates the queue of a base branch with an access namespace. An existing one of this namespace and
    /// repository is left unchanged. A removed one continues: entry numbers, history, statistics and chain.
    /// `may_continue` says whether one of another namespace may.
    ///
    /// # Errors
    /// [`MergeError::NameTaken`] if the id is that of another namespace or repository,
    /// [`MergeError::RepositoryTaken`] if the branch has a queue with another id.
    pub async fn add_queue_in(
        &self,
        namespace: &Namespace,
        repository: Repository,
        base_branch: &str,
        may_continue: impl Fn(&Namespace) -> bool + Send + Sync,
    ) -> Result<MergeQueue, EngineError> {
        let new = self.new_queue(namespace, repository, base_branch)?;
        let forge = self.forges.open(&new.repository);
        let invalid = |problem| invalid_base(base_branch, problem);
        let Some(tip) = forge.tip(base_branch).await? else {
            return Err(invalid("no such branch; push it first".to_owned()));
        };
        read_config(&*forge, &tip).await?.map_err(invalid)?;
        for _ in 0..TRIES_MAX {
            self.refuse_second(&new).await?;
            let Some(mut stored) = self.documents.load(&self.options.namespace, &new.id).await? else {
                let mut queue = new.clone();
                self.begin(&mut queue, tip.clone(), new.created_at).await?;
                if self.documents.create(&self.options.namespace, &queue).await? {
                    return self.added(&new).await;
                }
                continue;
            };
            if !stored.queue.is_removed() {
                return self.existing(stored.queue, &new).await;
            }
            let owner = self.namespace_of(&stored.queue);
            if (owner != namespace && !may_continue(owner))
                || !continues(&*forge, &stored.queue, &new, &tip).await?
            {
                return Err(MergeError::NameTaken(new.id).into());
            }
            let next = stored.queue.clone().revive(&new);
            if self.save(&mut stored, next).await? {
                return self.added(&new).await;
            }
        }
        Err(EngineError::Busy)
    }

    fn new_queue(
        &self,
        namespace: &Namespace,
        repository: Repository,
        base_branch: &str,
    ) -> Result<MergeQueue, EngineError> {
        if namespace.is_reserved() {
            return Err(MergeError::ReservedNamespace(namespace.clone()).into());
        }
        if let Some(problem) = branch_name_problem(base_branch) {
            return Err(MergeError::InvalidBranchName { name: base_branch.to_owned(), problem }.into());
        }
        let mut queue = MergeQueue::new(repository, base_branch, self.clock.now());
        queue.namespace = Some(namespace.clone()).filter(|namespace| *namespace != self.options.namespace);
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
        if queue.id.0.len() > NAME_MAX_BYTES || !queue.id.0.chars().all(is_plain) {
            let problem = format!("a queue id has at most {NAME_MAX_BYTES} bytes and no whitespace");
            return Err(invalid_base(base_branch, problem));
        }
        Ok(queue)
    }

    /// The stored queue, if it is the one that is added.
    async fn existing(&self, stored: MergeQueue, new: &MergeQueue) -> Result<MergeQueue, EngineError> {
        let is_same = self.namespace_of(&stored) == self.namespace_of(new)
            && self.place(&stored.repository).await == self.place(&new.repository).await;
        if !is_same {
            return Err(MergeError::NameTaken(stored.id).into());
        }
        stored.refuse_removed()?;
        Ok(stored)
    }

    /// Another process may have added a queue for the same branch at the same moment: no store writes two
    /// documents on a condition over both, so each looks again after it wrote, and withdraws.
    async fn added(&self, new: &MergeQueue) -> Result<MergeQueue, EngineError> {
        if let Err(taken) = self.refuse_second(new).await {
            let options = RemoveOptions { cancel_entries: true, by: None };
            Box::pin(self.remove_queue(&new.id, &options)).await?;
            return Err(taken);
        }
        self.was_changed(&new.id);
        Ok(self.get(&new.id).await?.queue)
    }

    /// Two queues for one branch would take each other's landings for changes from outside; and one of
    /// another namespace would let its producers land there.
    async fn refuse_second(&self, new: &MergeQueue) -> Result<(), EngineError> {
        let place = self.place(&new.repository).await;
        let others = self.queues().await?;
        for other in others.iter().filter(|other| other.id != new.id && other.base_branch == new.base_branch)
        {
            if self.place(&other.repository).await == place {
                let is_ours = self.namespace_of(other) == self.namespace_of(new);
                let queue: Option<QueueId> = is_ours.then(|| other.id.clone());
                let base_branch = new.base_branch.clone();
                return Err(MergeError::RepositoryTaken { base_branch, queue }.into());
            }
        }
        Ok(())
    }

    /// What identifies a repository: its location, if it cannot be reached.
    async fn place(&self, repository: &Repository) -> String {
        let identity = self.forges.open(repository).identity().await;
        identity.unwrap_or_else(|_| repository.location.clone())
    }
}

/// Whether the past of a removed queue is that of the repository that is added. A base that was rewound in
/// the same place is: the queue then pauses, and names what is missing.
async fn continues(
    forge: &dyn Forge,
    removed: &MergeQueue,
    new: &MergeQueue,
    tip: &Oid,
) -> Result<bool, EngineError> {
    match &removed.chain {
        Some(chain) if removed.repository.location != new.repository.location => {
            Ok(forge.contains(tip, &chain.commit).await?)
        }
        _ => Ok(true),
    }
}

fn invalid_base(base_branch: &str, problem: String) -> EngineError {
    MergeError::InvalidBaseBranch { base_branch: base_branch.to_owned(), problem }.into()
}
