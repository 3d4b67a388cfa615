//! What landed, and what says that it was tested. Anybody with the repository can check it.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{EngineError, MergeEngine};
use crate::domain::{CheckName, EntryId, MergeQueue, Oid, QueueEntry, QueueId, RunEnd};
use crate::forge::{MergeOutcome, MergeRequest};

/// One landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// Through which queue.
    pub queue: QueueId,
    /// By which entry.
    pub entry: EntryId,
    /// The change.
    pub pull_request: String,
    /// Where the base was.
    pub base: Oid,
    /// What was merged onto it.
    pub head: Oid,
    /// What was tested.
    pub tree: Oid,
    /// Where the base is now.
    pub commit: Oid,
    /// What the tree passed.
    pub checks: Vec<CertifiedCheck>,
    /// When.
    pub landed_at: Option<Timestamp>,
}

/// A check that passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertifiedCheck {
    /// Which.
    pub name: CheckName,
    /// The hash of the log of the run that passed; none if the same tree had passed before.
    pub log_hash: Option<String>,
    /// How many runs it took on the candidate and the base.
    pub runs: usize,
}

impl Certificate {
    /// Of an entry whose candidate landed.
    pub fn of(queue: &MergeQueue, entry: &QueueEntry) -> Option<Self> {
        let (candidate, merged) = (entry.candidate.as_ref()?, entry.merged()?);
        let checks = entry.checks.iter().map(|check| CertifiedCheck {
            name: check.name.clone(),
            log_hash: check.runs.iter().find_map(|run| match (&run.end, run.on) {
                (Some(RunEnd::Passed { log_hash }), crate::domain::On::Candidate) => Some(log_hash.clone()),
                _ => None,
            }),
            runs: check.runs.len(),
        });
        Some(Self {
            queue: queue.id.clone(),
            entry: entry.id,
            pull_request: entry.pull_request.id.clone(),
            base: candidate.base.clone(),
            head: candidate.head.clone(),
            tree: merged.tree.clone(),
            commit: merged.commit.clone(),
            checks: checks.collect(),
            landed_at: entry.completed_at,
        })
    }
}

/// What came of checking a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What was checked.
    pub certificate: Certificate,
    /// What is not as it says; nothing if all is well.
    pub differences: Vec<String>,
}

/// What the candidate of an entry says, so that whoever has the same parents makes the same commit.
pub(super) fn message(queue: &MergeQueue, entry: &QueueEntry) -> String {
    let QueueEntry { id, pull_request, .. } = entry;
    format!(
        "Merge `{}` into `{}`\n\nWeaver-Queue: {}\nWeaver-Entry: {id}\n",
        pull_request.head_ref, queue.base_branch, queue.id
    )
}

impl MergeEngine {
    /// Checks the certificate of an entry that landed against the repository: the tree is made again from its parents.
    pub async fn verify(&self, queue: &QueueId, id: EntryId) -> Result<Option<Verified>, EngineError> {
        let stored = self.get(queue).await?;
        let detail = self.ledger.entry(&self.options.namespace, queue, id).await?;
        let Some((detail, certificate)) =
            detail.and_then(|detail| Some((detail.clone(), detail.certificate?)))
        else {
            return Ok(None);
        };
        let differences = self.audit(&stored.queue, &detail.entry, &certificate).await?;
        Ok(Some(Verified { certificate, differences }))
    }

    pub(super) async fn audit(
        &self,
        queue: &MergeQueue,
        entry: &QueueEntry,
        certificate: &Certificate,
    ) -> Result<Vec<String>, EngineError> {
        let forge = self.forges.open(&queue.repository);
        let Certificate { base, head, tree, commit, checks, .. } = certificate;
        let mut differences = Vec::new();
        let seen = forge.commit(commit).await?;
        if seen.tree != *tree {
            differences.push(format!("commit {commit} has the tree {}, not {tree}", seen.tree));
        }
        if seen.parents != [base.clone(), head.clone()] {
            differences.push(format!("commit {commit} does not have the parents {base} and {head}"));
        }
        let request = MergeRequest { base: base.clone(), head: head.clone(), message: message(queue, entry) };
        match forge.merge(&request).await? {
            MergeOutcome::Merged(again) if again.tree == *tree && again.commit == *commit => {}
            MergeOutcome::Merged(again) => {
                differences
                    .push(format!("merged again, it is {} with the tree {}", again.commit, again.tree));
            }
            other => differences.push(format!("it cannot be merged again: {other:?}")),
        }
        match forge.tip(&queue.base_branch).await? {
            Some(tip) if forge.contains(&tip, commit).await? => {}
            _ => differences.push(format!("`{}` does not contain {commit}", queue.base_branch)),
        }
        if checks.is_empty() {
            differences.push("no check is named".to_owned());
        }
        Ok(differences)
    }
}
