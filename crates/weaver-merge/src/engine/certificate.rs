//! What landed, and what says that it was tested. Anybody with the repository and the keys can check it.

use serde::{Deserialize, Serialize};
use weaver_core::time::Timestamp;

use super::{ChainExport, ChainReport, EngineError, Fact, MergeEngine, verify};
use crate::config::MergeConfig;
use crate::domain::{
    Check, CheckName, Departure, EntryId, Judgement, MergeQueue, Oid, On, QueueEntry, QueueId, RunEnd,
};

/// One landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// Through which queue.
    pub queue: QueueId,
    /// By which entry.
    pub entry: EntryId,
    /// The change.
    pub pull_request: String,
    /// The branch it was on, if that is not the change's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_ref: Option<String>,
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
    /// The program and its arguments; nothing in certificates of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `passed`, `flaky` (it passed when repeated) or `reused` (the same tree had passed); nothing in older
    /// versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// The SHA-256 of all the output of the run that passed; none if the same tree had passed before.
    pub log_hash: Option<String>,
    /// How many runs it took on the candidate and the base.
    pub runs: usize,
}

impl Certificate {
    /// Of an entry whose candidate landed, with the configuration of its base.
    pub fn of(queue: &MergeQueue, entry: &QueueEntry, config: Option<&MergeConfig>) -> Option<Self> {
        let (candidate, merged) = (entry.candidate.as_ref()?, entry.merged()?);
        let pull_request = &entry.pull_request;
        let command = |check: &Check| Some(config?.check(&check.name)?.command.clone());
        let checks = entry.checks.iter().map(|check| CertifiedCheck {
            name: check.name.clone(),
            command: command(check).unwrap_or_default(),
            result: result(check).to_owned(),
            log_hash: check.runs.iter().find_map(|run| match (&run.end, run.on) {
                (Some(RunEnd::Passed { log_hash }), On::Candidate) => Some(log_hash.clone()),
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
    match check.judge() {
        Judgement::Passed if check.is_reused => "reused",
        Judgement::Passed => "passed",
        Judgement::Flaky => "flaky",
        _ => "not passed",
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
pub(super) fn message(head_ref: &str, base_branch: &str, queue: &QueueId, entry: EntryId) -> String {
    format!("Merge `{head_ref}` into `{base_branch}`\n\nWeaver-Queue: {queue}\nWeaver-Entry: {entry}\n")
}

pub(super) fn message_of(queue: &MergeQueue, entry: &QueueEntry) -> String {
    message(&entry.pull_request.head_ref, &queue.base_branch, &queue.id, entry.id)
}

impl MergeEngine {
    /// Checks the certificate of an entry that landed: that a signed link of the chain has it, and against
    /// the repository.
    pub async fn verify(&self, queue: &QueueId, id: EntryId) -> Result<Option<Verified>, EngineError> {
        let stored = self.get(queue).await?.queue;
        let detail = self.ledger.entry(&self.options.namespace, queue, id).await?;
        let Some(certificate) = detail.and_then(|detail| detail.certificate) else { return Ok(None) };
        let Some(chain) = self.export(queue).await? else {
            let differences = self.audit_unsigned(&stored, &certificate).await?;
            return Ok(Some(Verified { certificate, differences }));
        };
        let signed = Self::landing(&chain.links, id);
        let mut differences = match &signed {
            Some(signed) if *signed == certificate => Vec::new(),
            Some(_) => vec!["the signed link of this entry says something else".to_owned()],
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

    /// Checks the whole chain; against the repository the links of `audited`. With the first of them, every
    /// entry that says it landed is compared with the chain.
    pub async fn verify_all(
        &self,
        queue: &QueueId,
        audited: std::ops::Range<u64>,
    ) -> Result<ChainReport, EngineError> {
        let stored = self.get(queue).await?.queue;
        let Some(chain) = self.export(queue).await? else {
            let differences =
                vec!["the queue has no chain yet: it begins when the queue is next looked at".to_owned()];
            return Ok(ChainReport { differences, ..ChainReport::default() });
        };
        let is_first = audited.start == 0;
        let mut report = self.check_chain(&stored, &chain, audited).await?;
        // Once: every document of an entry is read.
        let count = if is_first { u64::MAX } else { 0 };
        for detail in self.ledger.entries(&self.options.namespace, &stored, count).await? {
            let (id, Some(Departure::Landed)) = (detail.entry.id, &detail.departure) else { continue };
            match (detail.certificate, Self::landing(&chain.links, id)) {
                (Some(stored), Some(signed)) if stored == signed => {}
                (Some(certificate), None) => {
                    let differences = self.audit_unsigned(&stored, &certificate).await?;
                    report
                        .differences
                        .extend(differences.into_iter().map(|text| format!("entry {id}: {text}")));
                }
                _ => report.differences.push(format!("entry {id}: the signed link says something else")),
            }
        }
        Ok(report)
    }

    /// The chain of a queue; none while it has not begun.
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

    /// One that no link has: it counts only if it landed before there was a chain.
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
            differences.push("no signed link of the chain has this landing".to_owned());
        }
        differences.extend(verify::audit(&*forge, &queue.base_branch, certificate, tip.as_ref()).await?);
        Ok(differences)
    }

    /// Checks a landing that was just made, and answers its certificate as it is signed.
    pub(super) async fn audit_landing(
        &self,
        queue: &MergeQueue,
        link: &crate::domain::LinkId,
    ) -> Result<(Option<Certificate>, Vec<String>), EngineError> {
        let found = self.ledger.link(&self.options.namespace, &queue.id, link).await?;
        let Some(Fact::Landing { certificate }) =
            found.and_then(|found| found.read().ok()).map(|link| link.fact)
        else {
            return Ok((None, vec![format!("link {} is missing", link.sequence)]));
        };
        let forge = self.forges.open(&queue.repository);
        // Whether the base still has it is asked before anything else lands.
        let differences = verify::audit(&*forge, &queue.base_branch, &certificate, None).await?;
        Ok((Some(*certificate), differences))
    }
}
