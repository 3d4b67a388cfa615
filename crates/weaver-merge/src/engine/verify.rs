//! Verifies a chain from an export, a repository and public keys. Needs neither store nor server.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Certificate, EngineError, Fact, Link, SignedLink, certificate, read_config};
use crate::config::MergeConfig;
use crate::domain::{ChainHead, EntryId, Oid, QueueId};
use crate::forge::{Forge, MergeOutcome, MergeRequest};
use crate::keys::PublicKey;

/// An exported chain, for verification elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainExport {
    /// Id of the queue.
    pub queue: QueueId,
    /// Branch of the queue.
    pub base_branch: String,
    /// Id of the newest link.
    pub head: ChainHead,
    /// Signed links, newest first.
    pub links: Vec<SignedLink>,
}

/// Result of verifying a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainReport {
    /// Audited links, and those with problems; oldest first.
    pub links: Vec<LinkReport>,
    /// Problems of the chain as a whole; empty if there are none.
    pub differences: Vec<String>,
    /// How the tip of the base differs from the end of the chain; none if it does not.
    pub base: Option<String>,
}

/// Result of verifying a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReport {
    /// Position in the chain, from 0.
    pub sequence: u64,
    /// `start`, `landing` or `foreign`.
    pub kind: &'static str,
    /// Only for a landing.
    pub entry: Option<EntryId>,
    /// Tip of the base after it.
    pub commit: Oid,
    /// Untested commits that it records; none for a landing.
    pub untested: Option<String>,
    /// What does not match; empty if it is valid.
    pub differences: Vec<String>,
}

impl ChainReport {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.differences.is_empty()
            && self.base.is_none()
            && self.links.iter().all(|link| link.differences.is_empty())
    }
}

impl ChainExport {
    /// Verifies every signature and hash, and audits the links of `audited` against the repository.
    ///
    /// # Errors
    /// If the repository is unavailable.
    pub async fn verify(
        &self,
        forge: &dyn Forge,
        trusted: &[PublicKey],
        audited: Range<u64>,
    ) -> Result<ChainReport, EngineError> {
        let mut report = ChainReport::default();
        let links = self.unbroken(&mut report.differences);
        let taken_back: BTreeSet<EntryId> =
            links.iter().flat_map(|(link, _)| taken_back(&link.fact)).collect();
        let tip = forge.tip(&self.base_branch).await?;
        let mut before: Option<&Oid> = None;
        let mut seen = BTreeSet::new();
        for (link, signed) in &links {
            let mut differences = Vec::new();
            differences.extend(signed.signature_problem(trusted));
            if link.queue != self.queue {
                differences.push(format!("belongs to queue {}", link.queue));
            }
            match (link.fact.from(), before) {
                (None, Some(_)) => differences.push("the chain starts again in the middle".to_owned()),
                (Some(from), Some(before)) if from != before => {
                    differences.push(format!("starts at {from}, but the previous link ends at {before}"));
                }
                _ => {}
            }
            if let Some(entry) = link.fact.entry().filter(|entry| !seen.insert(*entry)) {
                differences.push(format!("entry {entry} had landed already"));
            }
            before = Some(link.fact.to());
            let is_audited = audited.contains(&link.sequence);
            if let (Fact::Landing { certificate }, true) = (&link.fact, is_audited) {
                let tip = tip.as_ref().filter(|_| !taken_back.contains(&certificate.entry));
                differences.extend(audit(forge, &self.base_branch, certificate, tip).await?);
            }
            if is_audited || !differences.is_empty() {
                report.links.push(LinkReport {
                    sequence: link.sequence,
                    kind: link.fact.word(),
                    entry: link.fact.entry(),
                    commit: link.fact.to().clone(),
                    untested: untested(&link.fact),
                    differences,
                });
            }
        }
        let ends_at = before.unwrap_or(&self.head.commit);
        if *ends_at != self.head.commit {
            let problem = format!("the chain ends at {ends_at}, but the queue records {}", self.head.commit);
            report.differences.push(problem);
        }
        report.base = self.compare_base(forge, tip.as_ref(), ends_at).await?;
        Ok(report)
    }

    /// Links from oldest to newest, as far back as the hashes lead.
    fn unbroken(&self, differences: &mut Vec<String>) -> Vec<(Link, &SignedLink)> {
        let by_hash: HashMap<String, &SignedLink> =
            self.links.iter().map(|link| (link.hash(), link)).collect();
        let (mut next, mut sequence) = (Some(self.head.link.hash.clone()), self.head.link.sequence);
        let mut links = Vec::new();
        while let Some(hash) = next {
            let Some(signed) = by_hash.get(&hash) else {
                differences.push(format!("link {sequence} is missing (hash {hash})"));
                break;
            };
            let link = match signed.read() {
                Ok(link) => link,
                Err(problem) => {
                    differences.push(format!("link {sequence} cannot be decoded: {problem}"));
                    break;
                }
            };
            if link.sequence != sequence {
                differences.push(format!("link {sequence} is numbered {}", link.sequence));
                break;
            }
            next = link.previous.clone();
            if next.is_some() == (sequence == 0) || next.is_none() != matches!(link.fact, Fact::Start { .. })
            {
                differences.push(format!("the chain has no valid start at link {sequence}"));
                next = None;
            }
            sequence = sequence.saturating_sub(1);
            links.push((link, *signed));
        }
        links.reverse();
        links
    }

    /// How the tip of the base differs from the end of the chain.
    async fn compare_base(
        &self,
        forge: &dyn Forge,
        tip: Option<&Oid>,
        ends_at: &Oid,
    ) -> Result<Option<String>, EngineError> {
        let branch = &self.base_branch;
        Ok(match tip {
            Some(tip) if tip == ends_at => None,
            Some(tip) if forge.contains(tip, ends_at).await? => Some(format!(
                "`{branch}` is at {tip}, ahead of the chain, which ends at {ends_at}: \
                 the commits in between were not tested"
            )),
            Some(tip) => {
                Some(format!("`{branch}` is at {tip} and does not contain {ends_at}, the end of the chain"))
            }
            None => Some(format!("there is no branch `{branch}`")),
        })
    }
}

fn taken_back(fact: &Fact) -> Vec<EntryId> {
    match fact {
        Fact::Foreign { moved, .. } => moved.taken_back.clone(),
        _ => Vec::new(),
    }
}

fn untested(fact: &Fact) -> Option<String> {
    match fact {
        Fact::Foreign { moved, accepted_by } => {
            Some(format!("from {}; accepted by {accepted_by}", moved.describe()))
        }
        Fact::Start { commit } => Some(format!("everything up to {commit}, the start of the chain")),
        Fact::Landing { .. } => None,
    }
}

/// Audits a certificate against the repository: rebuilds the merge from its parents, and compares the checks
/// with the configuration of its base. `tip` is the branch's tip, if that must still contain the landing.
pub(super) async fn audit(
    forge: &dyn Forge,
    base_branch: &str,
    certificate: &Certificate,
    tip: Option<&Oid>,
) -> Result<Vec<String>, EngineError> {
    let Certificate { base, head, tree, commit, .. } = certificate;
    let mut differences = Vec::new();
    if let Some(tip) = tip
        && !forge.contains(tip, commit).await?
    {
        differences.push(format!("`{base_branch}` does not contain {commit}"));
    }
    let seen = match forge.commit(commit).await {
        Ok(seen) => seen,
        Err(error) => {
            differences.push(format!("commit {commit} cannot be read: {error}"));
            return Ok(differences);
        }
    };
    if seen.tree != *tree {
        differences.push(format!("commit {commit} has tree {}, not {tree}", seen.tree));
    }
    if seen.parents != [base.clone(), head.clone()] {
        differences.push(format!("commit {commit} does not have the parents {base} and {head}"));
    }
    let message =
        certificate::message(certificate.head_ref(), base_branch, &certificate.queue, certificate.entry);
    let request = MergeRequest { base: base.clone(), head: head.clone(), message };
    match forge.merge(&request).await? {
        MergeOutcome::Merged(again) if again.tree == *tree && again.commit == *commit => {}
        MergeOutcome::Merged(again) => {
            differences.push(format!("rebuilding the merge gives {} with tree {}", again.commit, again.tree));
        }
        other => differences.push(format!("the merge cannot be rebuilt: {other:?}")),
    }
    match read_config(forge, base).await? {
        Ok(config) => differences.extend(compare_checks(certificate, &config)),
        Err(problem) => differences.push(format!("the configuration of {base} is invalid: {problem}")),
    }
    Ok(differences)
}

/// The certified checks must be those of the base's configuration, each passed and with a log hash.
fn compare_checks(certificate: &Certificate, config: &MergeConfig) -> Vec<String> {
    let mut differences = Vec::new();
    for required in &config.checks {
        let Some(check) = certificate.checks.iter().find(|check| check.name == required.name) else {
            differences.push(format!("check `{}` of its base is not certified", required.name));
            continue;
        };
        // Certificates of older versions have no command.
        if !check.command.is_empty() && check.command != required.command {
            differences.push(format!("check `{}` is certified with another command", required.name));
        }
        let is_hash = |hash: &String| {
            hash.len() == 64
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
                && hash.bytes().any(|byte| byte != b'0')
        };
        match (check.result.as_str(), &check.log_hash) {
            ("reused", None) => {}
            ("passed" | "flaky" | "", Some(hash)) if is_hash(hash) => {}
            ("", None) => {}
            (result, hash) => {
                differences.push(format!(
                    "check `{}` is certified as {result:?} with log hash {hash:?}",
                    required.name
                ));
            }
        }
    }
    for check in &certificate.checks {
        if config.check(&check.name).is_none() {
            differences.push(format!("check `{}` is not in the configuration of its base", check.name));
        }
    }
    differences
}
