//! The documents of a cluster, in the internal namespace.
//!
//! The leader's document is written by elections alone, so that its version is the epoch (ADR-0014).
//! Heartbeats are documents of their own: they must not make the epoch grow.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::name::Namespace;
use crate::ports::{Document, DocumentKey};

/// The kind of the leader's document.
pub const LEADER_KIND: &str = "cluster_leader";
/// The kind of the documents with the heartbeats of nodes.
pub const NODE_KIND: &str = "cluster_node";
/// Which node leads. The document's version is the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderBody {
    /// The node that leads; `None`: it resigned, and any other node may lead at once.
    pub node: Option<String>,
    /// Its host, or that of the node that resigned.
    pub host: String,
    /// The node that resigned or was demoted: it waits like one whose leader is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resigned: Option<String>,
}

/// A heartbeat of a node: each one is a new version of its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBody {
    /// The host it runs on: take-over prefers another one.
    pub host: String,
    /// The address of its HTTP API, if it serves one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The epoch in which it leads, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// It exits and will lead no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// The key of the leader's document.
pub fn leader_key() -> DocumentKey {
    DocumentKey::new(Namespace::internal(), LEADER_KIND, "leader")
}

/// The key of a node's heartbeat.
pub fn node_key(node: &str) -> DocumentKey {
    DocumentKey::new(Namespace::internal(), NODE_KIND, node)
}

/// A body as it is stored.
pub fn body<T: Serialize>(value: &T) -> Bytes {
    // These types have only strings, numbers and booleans: writing them cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// The body of a document; `None` if it cannot be read, as when a newer node wrote it.
pub fn parse<T: DeserializeOwned>(document: &Document) -> Option<T> {
    serde_json::from_slice(&document.body)
        .inspect_err(|error| {
            let DocumentKey { kind, id, .. } = &document.key;
            tracing::warn!(kind, id, %error, "cluster document is unreadable");
        })
        .ok()
}
