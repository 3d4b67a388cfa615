//! The commit a queue's base should be at, and changes of the base outside the queue.

use serde::{Deserialize, Serialize};

use super::{EntryId, Oid};

/// The newest link of a queue's chain. It is part of the queue's document, so the same conditional write
/// advances both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// The newest link, stored inline.
    #[serde(flatten)]
    pub link: LinkId,
    /// Tip of the base according to that link.
    pub commit: Oid,
    /// Tip of the base when the chain began. This queue tested nothing up to here.
    pub start: Oid,
}

/// Identifies a link by position and contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkId {
    /// Position in the chain, from 0.
    pub sequence: u64,
    /// SHA-256 of the signed link, in hexadecimal.
    pub hash: String,
}

/// A change of the base branch that this queue did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignMove {
    /// Tip of the base according to the chain.
    pub from: Oid,
    /// Tip of the base that was found.
    pub to: Oid,
    /// Commits that were added.
    pub commits: u64,
    /// Commits that were removed; not 0 if the base was rewound.
    #[serde(default)]
    pub lost: u64,
    /// Entries whose landing was removed with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<EntryId>,
    /// Authors, committers and pushers, as far as commits and the reflog tell.
    pub by: Vec<String>,
}

impl ForeignMove {
    /// Whether the base was rewound: it no longer contains what the chain says it has.
    pub fn is_back(&self) -> bool {
        self.lost > 0
    }

    /// One line for messages, pause reasons and reports.
    pub fn describe(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!(", {}", self.by.join(", ")) };
        let mut text = format!("{} to {}, {} commits{by}", self.from, self.to, self.commits);
        if self.is_back() {
            text += &format!("; {} commits were removed", self.lost);
        }
        if !self.taken_back.is_empty() {
            let entries: Vec<String> = self.taken_back.iter().map(EntryId::to_string).collect();
            text += &format!(", with the landings of entries {}", entries.join(", "));
        }
        text
    }
}

/// Consecutive entries that a hook declined with the same text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declines {
    /// Output of the hook.
    pub text: String,
    /// Distinct entries, oldest first.
    pub entries: Vec<EntryId>,
}
