//! Links of a queue's chain: signed, each with the hash of the previous one. Pure.
//!
//! The signature covers the JSON text of a link, which is stored verbatim: a reader verifies the bytes before
//! it parses them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weaver_core::time::Timestamp;

use super::Certificate;
use crate::domain::{EntryId, ForeignMove, LinkId, Oid, QueueId};
use crate::keys::{KeyError, Keyring, PublicKey, hex, unhex};

/// Domain separation: a signature of anything else is never valid for a link.
const DOMAIN: &str = "weaver merge link 1\n";

/// One change of a base branch, or the start of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The queue whose chain it is part of.
    pub queue: QueueId,
    /// Position in the chain, from 0.
    pub sequence: u64,
    /// Hash of the previous link; none for the first.
    pub previous: Option<String>,
    /// By the clock of the node that signed it.
    pub at: Timestamp,
    /// Stored inline, tagged by `kind`.
    #[serde(flatten)]
    pub fact: Fact,
}

/// The statement of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fact {
    /// The chain begins.
    Start {
        /// Tip of the base at that time.
        commit: Oid,
    },
    /// A change landed.
    Landing {
        /// What landed, and the checks it passed.
        certificate: Box<Certificate>,
    },
    /// A change of the base outside the queue was accepted. It was not tested here.
    Foreign {
        /// Old and new tip, and who moved it.
        moved: Box<ForeignMove>,
        /// Operator, or the setting that accepted it.
        accepted_by: String,
    },
}

impl Fact {
    /// Tip of the base before; none for the start of the chain.
    pub fn from(&self) -> Option<&Oid> {
        match self {
            Self::Start { .. } => None,
            Self::Landing { certificate } => Some(&certificate.base),
            Self::Foreign { moved, .. } => Some(&moved.from),
        }
    }

    /// Tip of the base after.
    pub fn to(&self) -> &Oid {
        match self {
            Self::Start { commit } => commit,
            Self::Landing { certificate } => &certificate.commit,
            Self::Foreign { moved, .. } => &moved.to,
        }
    }

    /// The entry, if it is a landing.
    pub fn entry(&self) -> Option<EntryId> {
        match self {
            Self::Landing { certificate } => Some(certificate.entry),
            _ => None,
        }
    }

    /// The stored word: `start`, `landing` or `foreign`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Landing { .. } => "landing",
            Self::Foreign { .. } => "foreign",
        }
    }
}

/// A link with its signature, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedLink {
    /// The signed text: a [`Link`] as JSON.
    pub body: String,
    /// Public key of the signer.
    pub key: PublicKey,
    /// Ed25519 signature, in hexadecimal.
    pub signature: String,
}

impl SignedLink {
    /// Signs a link.
    ///
    /// # Errors
    /// If there is no usable key.
    pub fn new(link: &Link, keyring: &Keyring) -> Result<Self, KeyError> {
        // Plain data: encoding cannot fail.
        let body = serde_json::to_string(link).unwrap_or_default();
        let (key, signature) = keyring.sign(&signed_bytes(&body))?;
        Ok(Self { body, key, signature: hex(&signature) })
    }

    /// SHA-256 of body, key and signature: the `previous` of the next link.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(DOMAIN);
        for part in [self.body.as_str(), &self.key.to_string(), &self.signature] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize())
    }

    /// Parses the body; does not verify the signature.
    ///
    /// # Errors
    /// If the body is not a link.
    pub fn read(&self) -> Result<Link, String> {
        serde_json::from_str(&self.body).map_err(|error| format!("invalid link: {error}"))
    }

    /// Its id at a position of the chain.
    pub fn id(&self, sequence: u64) -> LinkId {
        LinkId { sequence, hash: self.hash() }
    }

    /// Why the signature is not accepted; `None` if it is valid and its key trusted.
    pub fn signature_problem(&self, trusted: &[PublicKey]) -> Option<String> {
        if !trusted.contains(&self.key) {
            return Some(format!("signed with {}, which is not among the trusted keys", self.key));
        }
        let signature = unhex(&self.signature).unwrap_or_default();
        (!self.key.verifies(&signed_bytes(&self.body), &signature)).then(|| "invalid signature".to_owned())
    }
}

fn signed_bytes(body: &str) -> Vec<u8> {
    [DOMAIN.as_bytes(), body.as_bytes()].concat()
}
