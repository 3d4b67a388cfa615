//! The chain of a merge queue: every move of its base, signed, and what came of checking it.

use serde::{Deserialize, Serialize};
use weaver_merge::domain::OnForeign;

/// Where the chain of a queue ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChain {
    /// The number of its last link, counted from 0.
    pub sequence: u64,
    /// The SHA-256 of that link.
    pub hash: String,
    /// Where the base is by it.
    pub commit: String,
    /// Where the base was when the chain began.
    pub start: String,
}

/// A link as it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeLink {
    /// The text that is signed, JSON itself: `kind` is `start`, `landing` or `foreign`; `previous` is the
    /// hash of the one before.
    pub body: String,
    /// The Ed25519 public key: `ed25519:` and 64 hexadecimal digits.
    pub key: String,
    /// The signature, in hexadecimal digits.
    pub signature: String,
}

/// Which part of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeChainQuery {
    /// Links before this number; from the end if not given.
    pub before: Option<u64>,
    /// How many; 100 if not given.
    pub limit: Option<u32>,
}

/// The chain of a queue, or a part of it. All of it together with the repository and the public keys is what
/// `weaver merge verify --chain` needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChainExport {
    /// Of which queue.
    pub queue: String,
    /// The branch that it moves.
    pub base_branch: String,
    /// Where it ends.
    pub head: MergeChain,
    /// Its links, the newest first.
    pub links: Vec<MergeLink>,
    /// Ask for those before this number next; none if these were the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which part of a chain is checked against the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeVerifyQuery {
    /// Links from this number on; from the first if not given.
    pub from: Option<u64>,
    /// How many; 20 if not given.
    pub limit: Option<u32>,
}

/// What came of checking a chain. Signatures and hashes are checked for all of it, each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChainVerified {
    /// The links that were checked against the repository, and others that something is wrong with; the
    /// oldest first.
    pub links: Vec<MergeLinkVerified>,
    /// What is wrong with the chain as a whole; nothing if all is well.
    pub differences: Vec<String>,
    /// Where the base is, if not where the chain ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Ask from this number on next; none if these were the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// What came of checking a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeLinkVerified {
    /// Its number.
    pub sequence: u64,
    /// `start`, `landing` or `foreign`.
    pub kind: String,
    /// The entry that landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Where the base was then.
    pub commit: String,
    /// What came to the base untested, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// What is not as it says; nothing if all is well.
    pub differences: Vec<String>,
}

/// A move of the base by others that is taken as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcceptMerge {
    /// Where they moved it to: a commit's full name.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 40, max_length = 64, pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")
    )]
    pub commit: String,
}

/// What a queue is to do when others moved its base forward.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutMergeOnForeign {
    /// As the repository's kind says if not given: on plain git, `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
}
