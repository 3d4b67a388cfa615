//! Certificates: what landed, and the evidence that it was tested. They can be verified with the repository
//! and the public keys alone.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{ChainExport, ChainReport, EngineError, Fact, MergeEngine, verify};
use crate::config::MergeConfig;
use crate::domain::{
    Check, CheckName, CheckTarget, Conclusion, EntryId, EntryOutcome, MergeQueue, Oid, QueueEntry, QueueId,
    RunOutcome,
};

/// Certificate of one landing. Part of a signed link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The queue it landed through.
    pub queue: QueueId,
    /// Its entry in that queue.
    pub entry: EntryId,
    /// Id of the change.
    pub pull_request: String,
    /// Its branch, if that differs from the change's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ref: Option<String>,
    /// Tip of the base before: the first parent.
    pub base: Oid,
    /// Head of the change: the second parent.
    pub head: Oid,
    /// The tree that was tested.
    pub tree: Oid,
    /// The merge commit: tip of the base after.
    pub commit: Oid,
    /// Checks that the tree passed.
    pub checks: Vec<CertifiedCheck>,
    /// By the clock of the node that landed it.
    pub landed_at: Option<Timestamp>,
}

/// A passed check of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertifiedCheck {
    /// Name in the configuration of the base.
    pub name: CheckName,
    /// Program and arguments; empty in certificates of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `passed`, `flaky` (passed when repeated) or `reused` (the same tree had passed); empty in older
    /// versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// SHA-256 of the output of the passed run; none if the result was reused.
    pub log_hash: Option<String>,
    /// Runs on the candidate and the base.
    pub runs: usize,
}

impl Certificate {
    /// Certifies an entry whose candidate landed; `None` if it has no built candidate.
    pub fn of(queue: &MergeQueue, entry: &QueueEntry, config: Option<&MergeConfig>) -> Option<Self> {
        let (candidate, merged) = (entry.candidate.as_ref()?, entry.merged()?);
        let pull_request = &entry.pull_request;
        let command = |check: &Check| Some(config?.check(&check.name)?.command.clone());
        let checks = entry.checks.iter().map(|check| CertifiedCheck {
            name: check.name.clone(),
            command: command(check).unwrap_or_default(),
            result: result(check).to_owned(),
            log_hash: check.runs.iter().find_map(|run| match (&run.outcome, run.on) {
                (Some(RunOutcome::Passed { log_hash }), CheckTarget::Candidate) => Some(log_hash.clone()),
                _ => None,
            }),
            runs: check.runs.len(),
        });
        Some(Self {
            queue: queue.id.clone(),
            entry: entry.id,
            pull_request: pull_request.id.clone(),
            head_ref: (pull_request.head_ref != pull_request.id).then(|| pull_request.head_ref.clone()),
            base: candidate.base.clone(),
            head: candidate.head.clone(),
            tree: merged.tree.clone(),
            commit: merged.commit.clone(),
            checks: checks.collect(),
            landed_at: entry.completed_at,
        })
    }

    pub(super) fn head_ref(&self) -> &str {
        self.head_ref.as_deref().unwrap_or(&self.pull_request)
    }
}

fn result(check: &Check) -> &'static str {
    match check.conclusion() {
        Conclusion::Passed if check.is_reused => "reused",
        Conclusion::Passed => "passed",
        Conclusion::Flaky => "flaky",
        _ => "not passed",
    }
}

/// Result of verifying a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// As stored with the entry.
    pub certificate: Certificate,
    /// What does not match; empty if it is valid.
    pub differences: Vec<String>,
}

/// Commit message of a candidate: deterministic, so that the same parents give the same commit.
pub(super) fn message(head_ref: &str, base_branch: &str, queue: &QueueId, entry: EntryId) -> String {
    format!("Merge `{head_ref}` into `{base_branch}`\n\nWeaver-Queue: {queue}\nWeaver-Entry: {entry}\n")
}

pub(super) fn message_of(queue: &MergeQueue, entry: &QueueEntry) -> String {
    message(&entry.pull_request.head_ref, &queue.base_branch, &queue.id, entry.id)
}

impl MergeEngine {
    /// Verifies the certificate of a landed entry against the signed chain and the repository. `None` if the
    /// entry has no certificate.
    pub async fn verify(&self, queue: &QueueId, id: EntryId) -> Result<Option<Verified>, EngineError> {
        let stored = self.get(queue).await?.queue;
        let detail = self.documents.entry(&self.options.namespace, queue, id).await?;
        let Some(certificate) = detail.and_then(|detail| detail.certificate) else { return Ok(None) };
        let Some(chain) = self.export(queue).await? else {
            let differences = self.audit_unsigned(&stored, &certificate).await?;
            return Ok(Some(Verified { certificate, differences }));
        };
        let signed = Self::landing(&chain.links, id);
        let mut differences = match &signed {
            Some(signed) if *signed == certificate => Vec::new(),
            Some(_) => vec!["the signed link of this entry has a different certificate".to_owned()],
            None => self.audit_unsigned(&stored, &certificate).await?,
        };
        let sequences = chain.links.iter().filter_map(|link| link.read().ok());
        let sequence =
            sequences.filter(|link| link.fact.entry() == Some(id)).map(|link| link.sequence).next();
        let audited = sequence.map_or(0..0, |sequence| sequence..sequence + 1);
        let report = self.check_chain(&stored, &chain, audited.clone()).await?;
        let of_it = report.links.into_iter().filter(|link| audited.contains(&link.sequence));
        differences.extend(of_it.flat_map(|link| link.differences));
        differences.extend(report.differences);
        Ok(Some(Verified { certificate, differences }))
    }

    /// Verifies the whole chain, and the links of `audited` against the repository too. If `audited` starts
    /// at 0, every entry stored as landed is compared with the chain.
    pub async fn verify_all(
        &self,
        queue: &QueueId,
        audited: std::ops::Range<u64>,
    ) -> Result<ChainReport, EngineError> {
        let stored = self.get(queue).await?.queue;
        let Some(chain) = self.export(queue).await? else {
            let differences =
                vec!["the queue has no chain yet: it begins with the next reconciliation".to_owned()];
            return Ok(ChainReport { differences, ..ChainReport::default() });
        };
        let is_first = audited.start == 0;
        let mut report = self.check_chain(&stored, &chain, audited).await?;
        // Only once: it reads every entry's document.
        let count = if is_first { u64::MAX } else { 0 };
        for detail in self.documents.entries(&self.options.namespace, &stored, count).await? {
            let (id, Some(EntryOutcome::Landed)) = (detail.entry.id, &detail.outcome) else { continue };
            match (detail.certificate, Self::landing(&chain.links, id)) {
                (Some(stored), Some(signed)) if stored == signed => {}
                (Some(certificate), None) => {
                    let differences = self.audit_unsigned(&stored, &certificate).await?;
                    report
                        .differences
                        .extend(differences.into_iter().map(|text| format!("entry {id}: {text}")));
                }
                _ => report
                    .differences
                    .push(format!("entry {id}: the signed link has a different certificate")),
            }
        }
        Ok(report)
    }

    /// Exports the chain of a queue; `None` if it has not begun.
    pub async fn export(&self, queue: &QueueId) -> Result<Option<ChainExport>, EngineError> {
        let stored = self.get(queue).await?.queue;
        let Some(head) = stored.chain.clone() else { return Ok(None) };
        let links = self.links(&stored).await?;
        Ok(Some(ChainExport { queue: stored.id, base_branch: stored.base_branch, head, links }))
    }

    async fn check_chain(
        &self,
        queue: &MergeQueue,
        chain: &ChainExport,
        audited: std::ops::Range<u64>,
    ) -> Result<ChainReport, EngineError> {
        let forge = self.forges.open(&queue.repository);
        chain.verify(&*forge, &self.options.keyring.trusted()?, audited).await
    }

    /// Audits a certificate without a link: valid only if it landed before the chain began.
    async fn audit_unsigned(
        &self,
        queue: &MergeQueue,
        certificate: &Certificate,
    ) -> Result<Vec<String>, EngineError> {
        let forge = self.forges.open(&queue.repository);
        let tip = forge.tip(&queue.base_branch).await?;
        let mut differences = Vec::new();
        if let Some(chain) = &queue.chain
            && !forge.contains(&chain.start, &certificate.commit).await?
        {
            differences.push("no signed link of the chain records this landing".to_owned());
        }
        differences.extend(verify::audit(&*forge, &queue.base_branch, certificate, tip.as_ref()).await?);
        Ok(differences)
    }

    /// Audits a landing that was just made. Returns its signed certificate, and what does not match.
    pub(super) async fn audit_landing(
        &self,
        queue: &MergeQueue,
        link: &crate::domain::LinkId,
    ) -> Result<(Option<Certificate>, Vec<String>), EngineError> {
        let Some(certificate) = self.certificate(queue, link).await? else {
            return Ok((None, vec![format!("link {} is missing", link.sequence)]));
        };
        let forge = self.forges.open(&queue.repository);
        // Whether the base still contains it is checked before the next landing.
        let differences = verify::audit(&*forge, &queue.base_branch, &certificate, None).await?;
        Ok((Some(certificate), differences))
    }

    /// The signed certificate of a landing; `None` if its link is missing.
    pub(super) async fn certificate(
        &self,
        queue: &MergeQueue,
        link: &crate::domain::LinkId,
    ) -> Result<Option<Certificate>, EngineError> {
        let found = self.documents.link(&self.options.namespace, &queue.id, link).await?;
        Ok(match found.and_then(|found| found.read().ok()).map(|link| link.fact) {
            Some(Fact::Landing { certificate }) => Some(*certificate),
            _ => None,
        })
    }
}
