//! Where a queue's base should be, and what others did to it.

use serde::{Deserialize, Serialize};

use super::{EntryId, Oid};

/// The end of a queue's chain of links. It is part of the queue's document, so its conditional write moves
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// The last link.
    #[serde(flatten)]
    pub link: LinkId,
    /// Where the base is by it.
    pub commit: Oid,
    /// Where the base was when the chain began. What is in there was never this queue's to test.
    pub start: Oid,
}

/// A link, by its place and its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkId {
    /// Counted from 0.
    pub sequence: u64,
    /// The SHA-256 of the link as it is signed.
    pub hash: String,
}

/// A move of the base that this queue did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignMove {
    /// Where the base was by the chain.
    pub from: Oid,
    /// Where it was found.
    pub to: Oid,
    /// How many commits came.
    pub commits: u64,
    /// How many went: more than none if the base was moved back.
    #[serde(default)]
    pub lost: u64,
    /// Entries whose landing went with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<EntryId>,
    /// Who, as far as commits and the reflog tell.
    pub by: Vec<String>,
}

impl ForeignMove {
    /// Whether the base no longer has what the chain says it has.
    pub fn is_back(&self) -> bool {
        self.lost > 0
    }

    /// For people.
    pub fn describe(&self) -> String {
        let by = if self.by.is_empty() { String::new() } else { format!(", {}", self.by.join(", ")) };
        let mut text = format!("{} to {}, {} commits{by}", self.from, self.to, self.commits);
        if self.is_back() {
            text += &format!("; {} commits are missing", self.lost);
        }
        if !self.taken_back.is_empty() {
            let entries: Vec<String> = self.taken_back.iter().map(EntryId::to_string).collect();
            text += &format!(", with the landings of entries {}", entries.join(", "));
        }
        text
    }
}

/// Entries that a hook declined one after the other in the same words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declines {
    /// The words.
    pub text: String,
    /// The entries.
    pub entries: Vec<EntryId>,
}
