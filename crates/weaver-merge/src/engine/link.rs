//! The links of a queue's chain: signed, each with the hash of the one before. Pure.
//!
//! What is signed is the text of a link, kept as it was signed: a reader checks the bytes first and reads
//! them after.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weaver_core::time::Timestamp;

use super::Certificate;
use crate::domain::{EntryId, ForeignMove, LinkId, Oid, QueueId};
use crate::keys::{KeyError, Keyring, PublicKey, hex, unhex};

/// So that a signature of anything else is never one of a link.
const DOMAIN: &str = "weaver merge link 1\n";

/// One move of a base, or the place a chain begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Of which queue.
    pub queue: QueueId,
    /// Counted from 0.
    pub sequence: u64,
    /// The hash of the link before; none of the first.
    pub previous: Option<String>,
    /// When it was made, by the clock of the node that signed it.
    pub at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What a link says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fact {
    /// The chain begins: the base was here.
    Start {
        /// Where.
        commit: Oid,
    },
    /// A change landed.
    Landing {
        /// What it was, and what it passed.
        certificate: Box<Certificate>,
    },
    /// Others moved the base, and that was accepted. Nothing of it was tested here.
    Foreign {
        /// What they did.
        moved: Box<ForeignMove>,
        /// By whom it was accepted, or by which setting.
        accepted_by: String,
    },
}

impl Fact {
    /// Where the base was before; none where the chain begins.
    pub fn from(&self) -> Option<&Oid> {
        match self {
            Self::Start { .. } => None,
            Self::Landing { certificate } => Some(&certificate.base),
            Self::Foreign { moved, .. } => Some(&moved.from),
        }
    }

    /// Where the base is after.
    pub fn to(&self) -> &Oid {
        match self {
            Self::Start { commit } => commit,
            Self::Landing { certificate } => &certificate.commit,
            Self::Foreign { moved, .. } => &moved.to,
        }
    }

    /// The entry that landed.
    pub fn entry(&self) -> Option<EntryId> {
        match self {
            Self::Landing { certificate } => Some(certificate.entry),
            _ => None,
        }
    }

    /// As it is written.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Landing { .. } => "landing",
            Self::Foreign { .. } => "foreign",
        }
    }
}

/// A link as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedLink {
    /// The text that is signed: a [`Link`] as JSON.
    pub body: String,
    /// The key it is signed with.
    pub key: PublicKey,
    /// The signature, in hexadecimal digits.
    pub signature: String,
}

impl SignedLink {
    /// Signs a link.
    ///
    /// # Errors
    /// If there is no key that can be used.
    pub fn new(link: &Link, keyring: &Keyring) -> Result<Self, KeyError> {
        // Plain data: it can always be written.
        let body = serde_json::to_string(link).unwrap_or_default();
        let (key, signature) = keyring.sign(&signed_bytes(&body))?;
        Ok(Self { body, key, signature: hex(&signature) })
    }

    /// The hash that the next link has of this one: of all of it, so that neither text nor signature can be
    /// another.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(DOMAIN);
        for part in [self.body.as_str(), &self.key.to_string(), &self.signature] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize())
    }

    /// What it says; the signature is not checked here.
    ///
    /// # Errors
    /// If its text is no link.
    pub fn read(&self) -> Result<Link, String> {
        serde_json::from_str(&self.body).map_err(|error| format!("its text is no link: {error}"))
    }

    /// Its place, by what it says.
    pub fn id(&self, sequence: u64) -> LinkId {
        LinkId { sequence, hash: self.hash() }
    }

    /// What is wrong with its signature, if anything is.
    pub fn distrust(&self, trusted: &[PublicKey]) -> Option<String> {
        if !trusted.contains(&self.key) {
            return Some(format!("it is signed with {}, which is not among the trusted keys", self.key));
        }
        let signature = unhex(&self.signature).unwrap_or_default();
        (!self.key.verifies(&signed_bytes(&self.body), &signature))
            .then(|| "its signature is not one of its text".to_owned())
    }
}

fn signed_bytes(body: &str) -> Vec<u8> {
    [DOMAIN.as_bytes(), body.as_bytes()].concat()
}
