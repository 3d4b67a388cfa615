//! Checking a chain, from an export of it, the repository, and public keys: no store, no server.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Certificate, EngineError, Fact, Link, SignedLink, certificate, read_config};
use crate::config::MergeConfig;
use crate::domain::{ChainHead, EntryId, Oid, QueueId};
use crate::forge::{Forge, MergeOutcome, MergeRequest};
use crate::keys::PublicKey;

/// A queue's chain, to be checked elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainExport {
    /// Of which queue.
    pub queue: QueueId,
    /// The branch that it moves.
    pub base_branch: String,
    /// Where it ends.
    pub head: ChainHead,
    /// Its links, the newest first.
    pub links: Vec<SignedLink>,
}

/// What came of checking a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainReport {
    /// The links that were looked at against the repository, the oldest first.
    pub links: Vec<LinkReport>,
    /// What is wrong with the chain as a whole; nothing if all is well.
    pub differences: Vec<String>,
    /// Where the base is, if not where the chain ends.
    pub base: Option<String>,
}

/// What came of checking a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReport {
    /// Its place.
    pub sequence: u64,
    /// `start`, `landing` or `foreign`.
    pub kind: &'static str,
    /// The entry that landed.
    pub entry: Option<EntryId>,
    /// Where the base was then.
    pub commit: Oid,
    /// What came to the base untested, and how.
    pub untested: Option<String>,
    /// What is not as it says; nothing if all is well.
    pub differences: Vec<String>,
}

impl ChainReport {
    /// Whether everything is as the chain says.
    pub fn is_sound(&self) -> bool {
        self.differences.is_empty()
            && self.base.is_none()
            && self.links.iter().all(|link| link.differences.is_empty())
    }
}

impl ChainExport {
    /// Checks every signature and every hash; the links of `audited` are checked against the repository
    /// besides.
    ///
    /// # Errors
    /// If the repository cannot be asked.
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
            differences.extend(signed.distrust(trusted));
            if link.queue != self.queue {
                differences.push(format!("it is of the queue {}", link.queue));
            }
            match (link.fact.from(), before) {
                (None, Some(_)) => differences.push("the chain begins again in its middle".to_owned()),
                (Some(from), Some(before)) if from != before => {
                    differences.push(format!("it goes on from {from}, and the one before ends at {before}"));
                }
                _ => {}
            }
            if let Some(entry) = link.fact.entry().filter(|entry| !seen.insert(*entry)) {
                differences.push(format!("entry {entry} landed before"));
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
            let problem = format!("the chain ends at {ends_at}, and the queue says {}", self.head.commit);
            report.differences.push(problem);
        }
        report.base = self.compare_base(forge, tip.as_ref(), ends_at).await?;
        Ok(report)
    }

    /// The links from the first to the last, as far as each leads to the next.
    fn unbroken(&self, differences: &mut Vec<String>) -> Vec<(Link, &SignedLink)> {
        let by_hash: HashMap<String, &SignedLink> =
            self.links.iter().map(|link| (link.hash(), link)).collect();
        let (mut next, mut sequence) = (Some(self.head.link.hash.clone()), self.head.link.sequence);
        let mut links = Vec::new();
        while let Some(hash) = next {
            let Some(signed) = by_hash.get(&hash) else {
                differences.push(format!("link {sequence} is missing (its hash is {hash})"));
                break;
            };
            let link = match signed.read() {
                Ok(link) => link,
                Err(problem) => {
                    differences.push(format!("link {sequence} cannot be read: {problem}"));
                    break;
                }
            };
            if link.sequence != sequence {
                differences.push(format!("link {sequence} says that it is number {}", link.sequence));
                break;
            }
            next = link.previous.clone();
            if next.is_some() == (sequence == 0) || next.is_none() != matches!(link.fact, Fact::Start { .. })
            {
                differences.push(format!("the chain does not begin where it says, at link {sequence}"));
                next = None;
            }
            sequence = sequence.saturating_sub(1);
            links.push((link, *signed));
        }
        links.reverse();
        links
    }

    /// Where the base is, if not where the chain ends.
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
                "`{branch}` is at {tip}, ahead of the chain, which ends at {ends_at}: what is between was not tested"
            )),
            Some(tip) => {
                Some(format!("`{branch}` is at {tip} and does not contain {ends_at}, where the chain ends"))
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
        Fact::Start { commit } => Some(format!("everything up to {commit}, where the chain begins")),
        Fact::Landing { .. } => None,
    }
}

/// Checks a certificate against the repository: the merge is made again from its parents, and the checks are
/// compared with the configuration of its base. `tip` is that of the branch, if the landing must still be on
/// it.
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
        differences.push(format!("commit {commit} has the tree {}, not {tree}", seen.tree));
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
            differences.push(format!("merged again, it is {} with the tree {}", again.commit, again.tree));
        }
        other => differences.push(format!("it cannot be merged again: {other:?}")),
    }
    match read_config(forge, base).await? {
        Ok(config) => differences.extend(compare_checks(certificate, &config)),
        Err(problem) => differences.push(format!("the checks of {base} cannot be read: {problem}")),
    }
    Ok(differences)
}

/// The checks that are certified are those that the base asks for, each passed, each with the hash of a log.
fn compare_checks(certificate: &Certificate, config: &MergeConfig) -> Vec<String> {
    let mut differences = Vec::new();
    for asked in &config.checks {
        let Some(check) = certificate.checks.iter().find(|check| check.name == asked.name) else {
            differences.push(format!("the check `{}` of its base is not certified", asked.name));
            continue;
        };
        // Certificates of older versions do not say which command it was.
        if !check.command.is_empty() && check.command != asked.command {
            differences.push(format!("the check `{}` is certified with another command", asked.name));
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
                    "the check `{}` is certified as {result:?} with the log {hash:?}",
                    asked.name
                ));
            }
        }
    }
    for check in &certificate.checks {
        if config.check(&check.name).is_none() {
            differences.push(format!("its base has no check `{}`", check.name));
        }
    }
    differences
}
