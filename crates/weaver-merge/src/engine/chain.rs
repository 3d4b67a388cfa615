//! Extends and walks the signed chain of a queue: one link per change of its base.
//!
//! A link is written before the queue that references it, under a name that contains its hash. If the
//! queue's compare-and-set then loses against another process, the link is a document that no chain leads to.

use weaver_core::time::Timestamp;

use super::{Certificate, EngineError, Fact, Link, MergeEngine, SignedLink, VersionedQueue, read_config};
use crate::domain::{
    ChainHead, EntryId, EntryOutcome, ForeignMove, LandedChange, LinkId, MergeQueue, Notice, Oid, Status,
};
use crate::forge::{Forge, Moved};

/// Lost landings that are listed.
const TAKEN_BACK_MAX: usize = 100;
/// Links searched for the landings that a change conflicts with.
const LINKS_SEARCHED_MAX: usize = 1000;

impl MergeEngine {
    /// Begins the chain of a queue that has none, at the tip of its base, or at the tip before a landing that
    /// is not reported yet.
    pub(super) async fn start_chain(&self, stored: &mut VersionedQueue) -> Result<bool, EngineError> {
        let forge = self.forges.open(&stored.queue.repository);
        let Some(tip) = forge.tip(&stored.queue.base_branch).await? else { return Ok(false) };
        let mut start = tip.clone();
        let ready = stored.queue.current_entry().filter(|entry| entry.status == Status::Ready);
        if let Some((candidate, merged)) =
            ready.and_then(|entry| Some((entry.candidate.as_ref()?, entry.merged()?)))
            && forge.contains(&tip, &merged.commit).await?
        {
            start = candidate.base.clone();
        }
        let mut next = stored.queue.clone();
        self.begin(&mut next, start, self.clock.now()).await?;
        self.documents.save(&self.options.namespace, stored, next, &[]).await
    }

    pub(super) async fn begin(
        &self,
        queue: &mut MergeQueue,
        commit: Oid,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let fact = Fact::Start { commit: commit.clone() };
        let link = self.write_link(queue, None, fact, now).await?;
        queue.chain = Some(ChainHead { link, start: commit.clone(), commit });
        Ok(())
    }

    /// Writes the links of the new notices of a queue, and advances its chain. Returns the certificates.
    pub(super) async fn certify(
        &self,
        before: &MergeQueue,
        next: &mut MergeQueue,
    ) -> Result<Vec<Certificate>, EngineError> {
        let mut certificates = Vec::new();
        for index in 0..next.outbox.len() {
            if before.outbox.contains(&next.outbox[index]) {
                continue;
            }
            let fact = match &next.outbox[index] {
                Notice::Completed { entry, outcome: EntryOutcome::Landed, link: None } => {
                    let forge = self.forges.open(&next.repository);
                    let base = entry.candidate.as_ref().map(|candidate| &candidate.base);
                    let Some(base) = base else { continue };
                    let config = read_config(&*forge, base).await?.ok();
                    let Some(certificate) = Certificate::of(next, entry, config.as_ref()) else { continue };
                    certificates.push(certificate.clone());
                    Fact::Landing { certificate: Box::new(certificate) }
                }
                Notice::Foreign { moved, accepted_by, link: None } => {
                    Fact::Foreign { moved: moved.clone(), accepted_by: accepted_by.clone() }
                }
                _ => continue,
            };
            let Some(chain) = next.chain.clone() else { continue };
            let commit = fact.to().clone();
            let link = self.write_link(next, Some(&chain.link), fact, self.clock.now()).await?;
            next.chain = Some(ChainHead { link: link.clone(), commit, start: chain.start });
            if let Notice::Completed { link: place, .. } | Notice::Foreign { link: place, .. } =
                &mut next.outbox[index]
            {
                *place = Some(link);
            }
        }
        Ok(certificates)
    }

    async fn write_link(
        &self,
        queue: &MergeQueue,
        previous: Option<&LinkId>,
        fact: Fact,
        now: Timestamp,
    ) -> Result<LinkId, EngineError> {
        let link = Link {
            queue: queue.id.clone(),
            sequence: previous.map_or(0, |previous| previous.sequence + 1),
            previous: previous.map(|previous| previous.hash.clone()),
            at: now,
            fact,
        };
        let signed = SignedLink::new(&link, &self.options.keyring)?;
        let id = signed.id(link.sequence);
        self.documents.put_link(&self.options.namespace, &queue.id, &id, &signed).await?;
        Ok(id)
    }

    /// Links of a queue, newest first, until one is missing or unreadable.
    pub(super) async fn links(&self, queue: &MergeQueue) -> Result<Vec<SignedLink>, EngineError> {
        let (mut links, mut walk) = (Vec::new(), walk(queue));
        while let Some((signed, _)) = self.step_back(queue, &mut walk).await? {
            links.push(signed);
        }
        Ok(links)
    }

    /// The next older link of a walk. An unreadable link ends the walk; verification reports it.
    async fn step_back(
        &self,
        queue: &MergeQueue,
        walk: &mut Option<LinkId>,
    ) -> Result<Option<(SignedLink, Option<Link>)>, EngineError> {
        let Some(id) = walk.take() else { return Ok(None) };
        let found = self.documents.link(&self.options.namespace, &queue.id, &id).await?;
        let Some(signed) = found else { return Ok(None) };
        let link = signed.read().ok().filter(|link| link.sequence == id.sequence);
        *walk = link.as_ref().and_then(|link| {
            let hash = link.previous.clone()?;
            Some(LinkId { sequence: link.sequence.checked_sub(1)?, hash })
        });
        Ok(Some((signed, link)))
    }

    /// Describes how the base was changed outside the queue since the last link.
    pub(super) async fn foreign(
        &self,
        forge: &dyn Forge,
        queue: &MergeQueue,
        from: &Oid,
        to: &Oid,
    ) -> Result<ForeignMove, EngineError> {
        let is_ahead = forge.contains(to, from).await?;
        let moved = match forge.moved(&queue.base_branch, from, to).await {
            Ok(moved) => moved,
            // The old tip may be pruned from the repository.
            Err(_) if !is_ahead => Moved::default(),
            Err(error) => return Err(error.into()),
        };
        let mut taken_back = Vec::new();
        if !is_ahead {
            let mut walk = walk(queue);
            while let Some((_, Some(link))) = self.step_back(queue, &mut walk).await? {
                if taken_back.len() >= TAKEN_BACK_MAX || forge.contains(to, link.fact.to()).await? {
                    break;
                }
                taken_back.extend(link.fact.entry());
            }
            taken_back.reverse();
        }
        let lost = if is_ahead { 0 } else { moved.lost.max(1) };
        let (from, to) = (from.clone(), to.clone());
        Ok(ForeignMove { from, to, commits: moved.commits, lost, taken_back, by: moved.by })
    }

    /// Whether a change that the base contains got there outside this queue.
    pub(super) async fn was_merged_outside(
        &self,
        forge: &dyn Forge,
        queue: &MergeQueue,
        base: &Oid,
        head: &Oid,
    ) -> Result<bool, EngineError> {
        let (Some(chain), Some(introduced_by)) = (&queue.chain, forge.introduced_by(base, head).await?)
        else {
            return Ok(false);
        };
        if forge.contains(&chain.start, &introduced_by).await? {
            return Ok(false);
        }
        let mut walk = walk(queue);
        while let Some((_, Some(link))) = self.step_back(queue, &mut walk).await? {
            if link.fact.entry().is_some() && *link.fact.to() == introduced_by {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Landings of this queue that last changed conflicting paths, newest first.
    pub(super) async fn collisions(
        &self,
        forge: &dyn Forge,
        queue: &MergeQueue,
        base: &Oid,
        head: &Oid,
        paths: &[String],
    ) -> Result<Vec<LandedChange>, EngineError> {
        let commits = forge.last_changes(base, head, paths).await?;
        let (mut with, mut walk) = (Vec::new(), walk(queue));
        for _ in 0..LINKS_SEARCHED_MAX {
            if with.len() >= commits.len() {
                break;
            }
            let Some((_, Some(link))) = self.step_back(queue, &mut walk).await? else { break };
            if let Fact::Landing { certificate } = link.fact
                && commits.contains(&certificate.commit)
            {
                let Certificate { entry, pull_request, commit, .. } = *certificate;
                with.push(LandedChange { entry, pull_request, commit });
            }
        }
        Ok(with)
    }

    /// Accepts that the base was changed to `accept` outside the queue, and resumes the queue.
    ///
    /// # Errors
    /// [`MergeError::NothingToAccept`](crate::domain::MergeError::NothingToAccept) if `accept` is not such a
    /// change.
    pub async fn accept(
        &self,
        id: &crate::domain::QueueId,
        accept: &Oid,
        accepted_by: &str,
    ) -> Result<ForeignMove, EngineError> {
        let stored = self.get(id).await?;
        stored.queue.refuse_removed()?;
        let forge = self.forges.open(&stored.queue.repository);
        let refused = |problem: String| crate::domain::MergeError::NothingToAccept {
            commit: accept.to_string(),
            problem,
        };
        let branch = stored.queue.base_branch.clone();
        let Some(tip) = forge.tip(&branch).await? else {
            return Err(refused(format!("there is no branch `{branch}`")).into());
        };
        let Some(chain) = stored.queue.chain.clone() else {
            return Err(refused("the queue has not been reconciled yet; resume it first".to_owned()).into());
        };
        if *accept == chain.commit {
            return Err(refused(format!("the queue itself moved `{branch}` there")).into());
        }
        let is_between = forge.contains(&tip, accept).await? && forge.contains(accept, &chain.commit).await?;
        if *accept != tip && !is_between {
            return Err(refused(format!("`{branch}` is at {tip}; review and accept that commit")).into());
        }
        let moved = self.foreign(&*forge, &stored.queue, &chain.commit, accept).await?;
        let change = |next: &mut MergeQueue| {
            if next.chain.as_ref().is_none_or(|now| now.link != chain.link) {
                return Err(refused("the queue moved its base in the meantime; review it again".to_owned()));
            }
            next.accept(moved.clone(), accepted_by.to_owned());
            next.resume();
            Ok(())
        };
        self.change(id, change).await?;
        Ok(moved)
    }

    /// The signed certificate of an entry.
    pub(super) fn landing(links: &[SignedLink], id: EntryId) -> Option<Certificate> {
        links.iter().filter_map(|signed| signed.read().ok()).find_map(|link| match link.fact {
            Fact::Landing { certificate } if certificate.entry == id => Some(*certificate),
            _ => None,
        })
    }
}

fn walk(queue: &MergeQueue) -> Option<LinkId> {
    queue.chain.as_ref().map(|chain| chain.link.clone())
}
