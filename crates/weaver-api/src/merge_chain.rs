//! The chain of a merge queue: every move of its base as a signed link, and its verification.

use serde::{Deserialize, Serialize};
use weaver_merge::domain::OnForeign;

/// The head of a queue's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChain {
    /// The number of its last link, counted from 0.
    pub sequence: u64,
    /// The SHA-256 of that link.
    pub hash: String,
    /// The base commit according to that link.
    pub commit: String,
    /// The base commit when the chain began.
    pub start: String,
}

/// A link: a text and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeLink {
    /// The signed text, itself JSON: `kind` is `start`, `landing` or `foreign`; `previous` is the hash of the
    /// previous link.
    pub body: String,
    /// The Ed25519 public key: `ed25519:` and 64 hexadecimal digits.
    pub key: String,
    /// Ed25519 over `body`, in hexadecimal digits.
    pub signature: String,
}

/// Selects a part of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeChainQuery {
    /// Links before this number; from the newest if absent.
    pub before: Option<u64>,
    /// Links per page; default 100.
    pub limit: Option<u32>,
}

/// A queue's chain, or a part of it. The whole of it, the repository and the public keys are what `weaver
/// merge verify --chain` needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChainExport {
    /// The id of the queue.
    pub queue: String,
    /// The branch whose moves it records.
    pub base_branch: String,
    /// The head when this was read.
    pub head: MergeChain,
    /// At most `limit`, newest first.
    pub links: Vec<MergeLink>,
    /// The `before` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which links to verify against the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct MergeVerifyQuery {
    /// Links from this number on; from the first if absent.
    pub from: Option<u64>,
    /// Links per page; default 20.
    pub limit: Option<u32>,
}

/// The result of verifying a chain. Every request verifies the signatures and hashes of the whole chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeChainVerified {
    /// The links that were verified against the repository, and any others with differences; oldest first.
    pub links: Vec<MergeLinkVerified>,
    /// What is wrong with the chain as a whole; empty if it is valid.
    pub differences: Vec<String>,
    /// The base commit, if it is not where the chain ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The `from` of the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The result of verifying a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MergeLinkVerified {
    /// The link's number, counted from 0.
    pub sequence: u64,
    /// `start`, `landing` or `foreign`.
    pub kind: String,
    /// The number of the entry that landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// The base commit according to the link.
    pub commit: String,
    /// What reached the base untested, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// Where the repository differs from the link; empty if it is valid.
    pub differences: Vec<String>,
}

/// Accepts a move of the base that did not come through the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcceptMerge {
    /// The full name of the commit that the base was moved to.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 40, max_length = 64, pattern = "^([0-9a-f]{40}|[0-9a-f]{64})$")
    )]
    pub commit: String,
}

/// What a queue does after a push to its base that did not come through the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutMergeOnForeign {
    /// If absent, the default of the repository's kind: on plain git, `pause`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_foreign: Option<OnForeign>,
}
